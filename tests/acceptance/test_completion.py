"""`assay completion`: the script of each shell, and bash really completing with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labelling_project import ASSAY

# What bash calls when the tab key is pressed, without a terminal: the function of `complete -F`.
DRIVER = """
set -e
source <(assay completion bash)
line=$1; COMP_WORDS=($line); [[ $line == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
function=$(complete -p assay | sed 's/.*-F \\([^ ]*\\).*/\\1/')
$function assay "${COMP_WORDS[COMP_CWORD]}" ""
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A shell that has `assay` on its path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "assay"
    program.write_text(f"#!{sys.executable}\nfrom assay.cli.main import main\nmain()\n")
    program.chmod(0o755)
    return os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def completed(line: str, environment: dict[str, str], folder: Path) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", DRIVER, "bash", line], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    return done.stdout.split()


def test_bash_completes_commands_and_options(environment: dict[str, str], tmp_path: Path) -> None:
    assert completed("assay pi", environment, tmp_path) == ["pipeline"]
    assert {"run", "results"} <= set(completed("assay r", environment, tmp_path))
    assert {"rotate", "retire", "show", "check"} == set(completed("assay key ", environment, tmp_path))
    assert completed("assay run --concurr", environment, tmp_path) == ["--concurrency"]


def test_bash_falls_back_to_files(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "tickets.py").touch()
    assert completed("assay run tick", environment, tmp_path) == []
    asked = "source <(assay completion bash); complete -p assay"
    told = subprocess.run(
        ["bash", "-c", asked], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip
    assert "-o default" in told.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [*ASSAY, "completion", shell], capture_output=True, text=True, timeout=60, check=True
    )
    assert "_ASSAY_COMPLETE" in done.stdout
    assert "assay" in done.stdout
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n"], input=done.stdout, env=environment, text=True, check=True, timeout=60)


def test_no_other_shell(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [*ASSAY, "completion", "tcsh"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
