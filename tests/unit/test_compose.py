"""compose.yaml and its Dockerfile, as far as they can be judged without an engine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
from compose_file import Node, NotReadError, read_compose
from typer.core import TyperGroup

from assay.cli.main import app
from assay.starter import starter_files

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "compose.yaml").read_text("utf-8")
CONDITIONS = {"service_healthy", "service_completed_successfully"}
KNOWN_KEYS = {
    "image", "build", "restart", "environment", "ports", "volumes", "healthcheck", "depends_on", "entrypoint",
    "command", "stop_grace_period", "deploy",
}  # fmt: skip
ONE_SHOT = {"topics", "migrate"}
VALUES = {"POSTGRES_PASSWORD": "p", "ASSAY_VAULT_KEY": "k"}


def services() -> dict[str, dict[str, Node]]:
    found = mapping(read_compose(TEXT)["services"])
    return {name: mapping(service) for name, service in found.items()}


def mapping(node: Node) -> dict[str, Node]:
    assert isinstance(node, dict)
    return node


def words(node: Node) -> list[str]:
    assert isinstance(node, list)
    return [each for each in node if isinstance(each, str)]


def test_its_shape() -> None:
    found = services()
    assert found.keys() == {"kafka", "topics", "postgres", "migrate", "worker", "publisher"}
    for name, service in found.items():
        assert service.keys() <= KNOWN_KEYS, name
        assert "image" in service
        assert ("restart" in service) == (name not in ONE_SHOT)
        assert ("healthcheck" in service) == (name not in ONE_SHOT)
        for other, terms in mapping(service.get("depends_on") or {}).items():
            condition = mapping(terms)["condition"]
            assert condition in CONDITIONS
            assert (other in ONE_SHOT) == (condition == "service_completed_successfully")
    assert mapping(found["worker"]["deploy"])["replicas"] == "2"


def test_what_is_named_is_there() -> None:
    top, found = read_compose(TEXT), services()
    named = {
        volume.partition(":")[0] for each in found.values() for volume in words(each.get("volumes") or [])
    }
    assert {name for name in named if not name.startswith("$")} == mapping(top["volumes"]).keys()
    script = words(found["topics"]["command"])[0]
    topics = set(re.findall(r"tickets\.\w+", script))
    used = set(re.findall(r"tickets\.(?:in|out|dlq)", str(found["worker"]) + str(found["publisher"])))
    assert topics == used == {"tickets.in", "tickets.out", "tickets.dlq"}
    assert "tickets.py" in starter_files()
    assert (ROOT / "Dockerfile").is_file()


def test_every_command_is_one_of_ours() -> None:
    commands = [words(each["command"]) for each in services().values() if each["image"] == "assay:local"]
    commands += [
        test[2:] for each in services().values() if (test := health_test(each))[:2] == ["CMD", "assay"]
    ]
    assert len(commands) == 5
    for arguments in commands:
        parse(arguments)
    with pytest.raises(Exception, match="no-such-option"):
        parse([*commands[1], "--no-such-option"])


def health_test(service: dict[str, Node]) -> list[str]:
    return words(mapping(service.get("healthcheck") or {}).get("test") or [])


def parse(arguments: list[str]) -> None:
    """Have the command line parsed as far as the values of all options, and not run."""
    command = typer.main.get_command(app)
    context = command.make_context("assay", list(arguments), resilient_parsing=True)
    while isinstance(command, TyperGroup):
        name, found, arguments = command.resolve_command(context, list(arguments))
        assert found is not None
        command = found
        group = isinstance(found, TyperGroup)
        context = found.make_context(name, list(arguments), parent=context, resilient_parsing=group)


def test_secrets_come_from_outside() -> None:
    needed = set(re.findall(r"\$\{(\w+):\?", TEXT))
    assert needed == VALUES.keys()
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ASSAY_MODEL_API_KEY"):
        assert f"{name}: ${{{name}:-}}" in TEXT
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    assert re.search(r"^USER assay$", dockerfile, re.MULTILINE)
    assert not re.search(r"^ARG|^ENV|KEY|SECRET|PASSWORD|TOKEN", dockerfile, re.MULTILINE)


def test_what_the_image_copies_is_let_through() -> None:
    copied = re.findall(r"^COPY (.+) \S+$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    allowed = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    for path in " ".join(copied).split():
        assert f"!{path}" in allowed
        assert (ROOT / path).exists()


def test_compose_itself_reads_it_where_it_is_installed() -> None:
    """Needs no engine. Without the program, the tests above are all there is."""
    environment = {**os.environ, **VALUES}
    if found := shutil.which("docker-compose"):
        command = [found]
    elif (docker := shutil.which("docker")) and has_compose(docker):
        command = [docker, "compose"]
    else:
        return
    read = subprocess.run(
        [*command, "-f", str(ROOT / "compose.yaml"), "config", "-q"], env=environment, text=True,
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert read.returncode == 0, read.stderr


@pytest.mark.parametrize("text", ["a: b: c", "a: 1\na: 2", "a:\n  b: 1\n    c: 2", "- a", "a: &x b"])
def test_the_reader_refuses_other_yaml(text: str) -> None:
    with pytest.raises(NotReadError):
        read_compose(text)


def has_compose(docker: str) -> bool:
    asked = subprocess.run([docker, "compose", "version"], check=False, capture_output=True, timeout=60)
    return asked.returncode == 0
