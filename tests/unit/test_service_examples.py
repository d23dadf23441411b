"""The documented systemd unit and Kubernetes manifests: their commands exist, their times fit each other."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path
from typing import Final

import pytest
from manifest_file import Node, NotReadError, read_manifests
from typer.core import TyperGroup
from typer.main import get_command

from assay.cli.main import app

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
UNIT: Final = DOCS / "examples" / "systemd" / "assay-work.service"
MANIFESTS: Final = DOCS / "examples" / "kubernetes" / "worker.yaml"
# Beyond `--drain`: a database that is away (as long again), and leaving a group whose broker is away.
LEAVING_SECONDS: Final = 20


def words(command: list[str]) -> dict[str, str]:
    """The options of a command of ours, checked to exist."""
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    known = {option for each in group.commands[command[0]].params for option in each.opts}
    given = [word for word in command if word.startswith("-")]
    assert set(given) <= known, set(given) - known
    return {word: (command[command.index(word) + 1 :] or [""])[0] for word in given}


def mapping(node: Node) -> dict[str, Node]:
    assert isinstance(node, dict)
    return node


def items(node: Node) -> list[Node]:
    assert isinstance(node, list)
    return node


def at(node: Node, *path: str) -> Node:
    for name in path:
        node = mapping(node)[name]
    return node


def test_the_systemd_unit() -> None:
    unit = configparser.RawConfigParser(strict=True, delimiters=("=",))
    unit.read_string(UNIT.read_text("utf-8"))
    service = unit["Service"]
    program, *command = shlex.split(service["ExecStart"])
    options = words(command)
    assert program.endswith("/assay")
    assert options["--instance-id"] == "%H"
    drain = float(options["--drain"])
    assert float(service["TimeoutStopSec"]) >= 2 * drain + LEAVING_SECONDS
    assert float(options["--session"]) > float(service["RestartSec"])
    assert (service["Restart"], service["KillSignal"]) == ("always", "SIGTERM")
    assert service["EnvironmentFile"] == "/etc/assay/worker.env"
    assert "ASSAY_LOG=json" in service["Environment"].split()


def container(document: Node) -> tuple[dict[str, Node], dict[str, Node]]:
    """The pod's and the only container's mapping."""
    pod = mapping(at(document, "spec", "template", "spec"))
    (found,) = items(pod["containers"])
    return pod, mapping(found)


def test_the_kubernetes_manifests() -> None:
    documents = read_manifests(MANIFESTS.read_text("utf-8"))
    kinds = [at(each, "kind") for each in documents]
    assert kinds == ["StatefulSet", "Service", "Deployment"]
    for document in (documents[0], documents[2]):
        labels = at(document, "spec", "template", "metadata", "labels")
        assert at(document, "spec", "selector", "matchLabels") == labels
        pod, found = container(document)
        options = words([str(word) for word in items(found["args"])])
        grace = pod["terminationGracePeriodSeconds"]
        assert isinstance(grace, int)
        assert grace >= 2 * float(options.get("--drain", "0")) + LEAVING_SECONDS
        mounted = {at(each, "name") for each in items(found.get("volumeMounts", []))}
        assert mounted == {at(each, "name") for each in items(pod.get("volumes", []))}


def test_secrets_come_from_a_secret_and_the_id_from_the_pods_name() -> None:
    documents = read_manifests(MANIFESTS.read_text("utf-8"))
    _, worker = container(documents[0])
    environment = {str(at(each, "name")): mapping(each) for each in items(worker["env"])}
    for name in ("ASSAY_DATABASE_URL", "OPENAI_API_KEY"):
        assert at(environment[name], "valueFrom", "secretKeyRef", "name") == "assay"
    assert at(environment["POD_NAME"], "valueFrom", "fieldRef", "fieldPath") == "metadata.name"
    args = [str(word) for word in items(worker["args"])]
    assert args[args.index("--instance-id") + 1] == "$(POD_NAME)"
    assert environment["ASSAY_LOG"]["value"] == "json"


@pytest.mark.parametrize(
    "text", ["a: 1\na: 2", "a:\n\tb: 1", "a: {b: 1}", "a: 1\n    b: 2", "- a", "a: b: c", "a: &x 1"]
)
def test_other_yaml_is_refused(text: str) -> None:
    with pytest.raises(NotReadError):
        read_manifests(text)
