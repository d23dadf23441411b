"""`assay init`: what it prints is what to type next, and typing it works, for a plain user too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from newcomers import newcomer

from labelling_project import ASSAY

VENDOR = " vendor "
FILES = {".gitignore", "README.md"}


def init(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ASSAY, "init", *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


def commands(printed: str) -> list[str]:
    """What is to be typed: the indented lines."""
    return [line.strip() for line in printed.splitlines() if line.startswith("  ")]


def script(typed: list[str]) -> str:
    """The commands in order, as in a shell; the vendor in a terminal of its own, until the end."""
    lines = [f"{command} &\nvendor=$!" if VENDOR in command else command for command in typed]
    return "\n".join(["set -e", *lines, "kill $vendor", "wait $vendor || true"])


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """The environment of somebody who has `assay` on their path and nothing else set."""
    # Root's server runs as another user, who must be able to reach it.
    servers = Path(tempfile.mkdtemp(prefix="assay-init-"))
    servers.chmod(0o755)
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "assay"
    program.write_text(f"#!{sys.executable}\nfrom assay.cli.main import main\nmain()\n")
    program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name in ("HOME", "PYTHONPATH", "LANG")}
    yield kept | {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "ASSAY_SERVER_HOME": str(servers)
    }  # fmt: skip
    shutil.rmtree(servers, ignore_errors=True)  # a server stopped last may still write there


@pytest.mark.parametrize(
    ("example", "option", "told"),
    [
        ("tickets", "", ("Accuracy 0.8333 (25 of 30 correct)", "T-19")),
        (
            "receipts",
            "--example receipts",
            ("Documents with every field right: 8 under the normalisation, 7 exactly.", "R-08"),
        ),
    ],
)
def test_what_it_prints_works_when_typed(
    tmp_path: Path, shell: Mapping[str, str], example: str, option: str, told: tuple[str, ...]
) -> None:
    def bash(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", text], cwd=folder, env=dict(shell), capture_output=True, text=True, check=False,
            timeout=240,
        )  # fmt: skip

    started = bash(f"assay init 'my {example}' {option}", tmp_path)
    assert started.returncode == 0, started.stderr
    typed = commands(started.stdout)
    assert typed[0] == f"cd 'my {example}'"
    assert [VENDOR in command for command in typed].count(True) == 1
    project = tmp_path / f"my {example}"
    written = {path.name for path in project.iterdir()}
    assert written == FILES | {f"{example}.{suffix}" for suffix in ("jsonl", "md", "py")}
    try:
        done = bash(script(typed), tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        bash("assay db stop --force", project)
    assert all(words in done.stdout for words in told)
    assert "practice-1" in (done.stdout + done.stderr) or "dead letters" in done.stderr
    assert (project / ".assay" / "vault.key").is_file()


def test_a_plain_user_types_it() -> None:
    """In an installation of their own: made by `make`, as they would."""
    with newcomer("ordinary") as someone:
        code, made = someone.finished("make", ".venv/.ready-demo", timeout=280)
        assert code == 0, made
        path = f"{someone.clone / '.venv' / 'bin'}{os.pathsep}{someone.environment['PATH']}"
        run = ("env", f"PATH={path}", "bash", "-c")
        code, printed = someone.finished(*run, "assay init tickets")
        assert code == 0, printed
        try:
            code, printed = someone.finished(*run, script(commands(printed)), timeout=240)
            assert code == 0, printed
            assert "Accuracy 0.8333" in printed
        finally:
            someone.finished(*run, "cd tickets && assay db stop --force")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "tickets.py").write_text("mine")
    (tmp_path / "tickets.md").symlink_to("nowhere")
    refused = init(tmp_path)
    assert refused.returncode == 2
    assert "tickets.py, tickets.md exist already" in refused.stderr
    assert (tmp_path / "tickets.py").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"tickets.py", "tickets.md"}
    assert init(tmp_path, "tickets.py").returncode == 2
    assert init(tmp_path, "other").returncode == 0
    assert init(tmp_path, "other").returncode == 2


def test_in_the_folder_itself_nobody_is_sent_elsewhere(tmp_path: Path) -> None:
    assert not any(command.startswith("cd ") for command in commands(init(tmp_path).stdout))


@pytest.mark.parametrize("model", ["openai:gpt-5-mini", "anthropic:claude-sonnet-4-5"])
def test_a_model_of_ones_own(tmp_path: Path, model: str) -> None:
    done = init(tmp_path, "--model", model)
    assert done.returncode == 0, done.stderr
    assert f'model="{model}"' in (tmp_path / "tickets.py").read_text()
    assert f"{model.partition(':')[0].upper()}_API_KEY" in done.stdout


def test_a_model_of_ones_own_for_receipts(tmp_path: Path) -> None:
    done = init(tmp_path, "--example", "receipts", "--model", "openai:gpt-5-mini")
    assert done.returncode == 0, done.stderr
    assert 'model="openai:gpt-5-mini"' in (tmp_path / "receipts.py").read_text(encoding="utf-8")
    assert init(tmp_path, "--example", "invoices").returncode == 2


@pytest.mark.parametrize("model", ["gpt-5", "openai:", 'openai:x"; import os', "recorded:a#b"])
def test_a_model_of_another_form_is_refused(tmp_path: Path, model: str) -> None:
    refused = init(tmp_path, "--model", model)
    assert refused.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    refused = init(tmp_path, "/proc/nowhere")
    assert refused.returncode != 0
    assert refused.stderr.count("\n") == 1
