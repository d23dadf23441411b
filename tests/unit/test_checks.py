"""The checks of the repository find what they are for, in a small tree that is wrong on purpose."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HASH = "--hash=sha256:" + "0" * 64
CLEAN = {
    "README.md": "# Product\n\n[Records](docs/decisions/README.md#all-of-them).\n\n```sh\nmake demo\n```\n",
    "Makefile": "demo: ready\n\techo\n",
    "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n",
    "docs/decisions/README.md": "# Decisions\n\n## All of them\n\n- [one](one.md)\n",
    "docs/decisions/one.md": "# One\n",
    "src/assay/__init__.py": '"""What it is."""\n',
    "src/assay/labels.py": '"""Labels."""\n',
    "pyproject.toml": (
        '[project]\nname = "assay"\nversion = "{version}"\ndependencies = ["rich>=13"]\n'
        "[project.optional-dependencies]\nembedded = []\n[dependency-groups]\ndev = []\n"
    ),
    "requirements/build.in": "# build\n",
    "requirements/demo.txt": f"rich==14.0 \\\n    {HASH}\n",
    "requirements/dev.txt": f"rich==14.0 \\\n    {HASH}\n",
}


def installed_version() -> str:
    from importlib.metadata import version

    return version("assay")


def check(root: Path, changes: dict[str, str | None]) -> str:
    """What the checks say of the clean tree with some files changed (None: removed)."""
    for name, text in {**CLEAN, **changes}.items():
        if text is not None:
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace("{version}", installed_version()), "utf-8")
    answer = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "check_all.py"), str(root)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == (1 if answer.stderr else 0), answer.stderr
    return answer.stderr


def test_the_clean_tree_passes(tmp_path: Path) -> None:
    assert check(tmp_path, {}) == ""


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("README.md", "[gone](docs/gone.md)\n", "README.md:1: link to docs/gone.md leads nowhere"),
        ("README.md", "[x](docs/decisions/README.md#none)\n", "names a heading that is not there"),
        ("README.md", "```sh\nmake nothing\n```\n", "README.md:2: make has no target nothing"),
        ("README.md", "Run `make demo test`.\n", "make has no target test"),
        ("README.md", "Run `assay nothing-like-it`.\n", "there is no command: assay nothing-like-it"),
        ("docs/decisions/two.md", "# Two\n", "docs/decisions/two.md: not listed"),
        ("docs/decisions/README.md", None, "the index of decisions is missing"),
        ("src/assay/labels.py", "x = 1\n", "src/assay/labels.py: no docstring"),
        ("src/assay/labels.py", '"""Long."""\n' + "x = 1\n" * 400, "401 lines, more than 400"),
        ("src/assay/utils.py", '"""Things."""\n', "a name that says nothing"),
        ("src/assay/labels.py", '"""See /wo' + 'rk/main/x."""\n', "a path of one machine"),
        ("docs/note.md", "from https://py" + "pi.org/simple\n", "a registry's host"),
        ("docs/note.md", "as iss" + "ue 12 says\n", "a tracker's number"),
        ("src/assay/labels.py", '"""Labels."""\n# TO' + "DO: more\n", "an unfinished mark"),
        ("src/assay/labels.py", '"""Labels."""\nx = 1  # no' + "qa\n", "a silenced check"),
        ("src/assay/__init__.py", '"""It."""\n__version__ = "9.9"\n', "src/assay/__init__.py 9.9"),
        ("CHANGELOG.md", "# Changelog\n", "the section [Unreleased] is missing"),
        ("requirements/demo.txt", "rich==14.0\n", "requirements/demo.txt: no hash: rich==14.0"),
        ("requirements/demo.txt", f"rich>=14.0 \\\n    {HASH}\n", "not pinned: rich>=14.0"),
        ("requirements/demo.txt", f"rich==14.1 \\\n    {HASH}\n", "rich differs from dev.txt"),
        ("requirements/demo.txt", f"rich==12.0 \\\n    {HASH}\n", "rich>=13 is not there"),
        ("requirements/dev.txt", "--index-url https://example.org\n", "line 1 names an address"),
    ],
)
def test_each_check_finds_what_it_is_for(tmp_path: Path, name: str, text: str | None, said: str) -> None:
    assert said in check(tmp_path, {name: text})


def test_the_other_exports_are_checked_where_the_product_has_their_extras(tmp_path: Path) -> None:
    more = 'locallm = ["engine>=2"]\nzstd = ["zst>=1"]\n[dependency-groups]\nbench = ["peer>=3"]\n'
    project = CLEAN["pyproject.toml"].replace("[dependency-groups]\n", more)
    pinned = f"rich==14.0 \\\n    {HASH}\nzst==1.0 \\\n    {HASH}\n"
    engine, peer = (f"{name} \\\n    {HASH}\n" for name in ("engine==2.0", "peer==3.0"))
    right: dict[str, str | None] = {
        "pyproject.toml": project, "requirements/dev.txt": pinned, "requirements/bench.txt": pinned + peer,
        "requirements/local.txt": CLEAN["requirements/dev.txt"] + engine,
        "requirements/local-data.txt": f"weights==1 \\\n    {HASH}\n",
    }  # fmt: skip
    assert "requirements/" not in check(tmp_path, right)
    wrong = {
        "requirements/dev.txt": (CLEAN["requirements/dev.txt"], "zst>=1 is not there"),
        "requirements/bench.txt": (pinned + peer.replace("3.0", "2.0"), "peer>=3 is not there"),
        "requirements/local.txt": (engine + f"rich==13.9 \\\n    {HASH}\n", "rich differs from dev.txt"),
        "requirements/local-data.txt": ("weights==1\n", "no hash: weights==1"),
    }
    for name, (text, said) in wrong.items():
        assert said in check(tmp_path, {**right, name: text}), name
        (tmp_path / name).unlink()
        assert f"{name}: it is missing" in check(tmp_path, {**right, name: None}), name


def test_a_version_that_is_not_the_installed_one_is_found(tmp_path: Path) -> None:
    text = CLEAN["pyproject.toml"].replace("{version}", "9.9.9")
    assert "pyproject.toml says 9.9.9, the installed package" in check(tmp_path, {"pyproject.toml": text})


SKIPPING = """
import pytest

def test_runs():
    pass

@pytest.mark.skipif({skip}, reason="not here")
def test_may_skip():
    pass
"""


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(("skip", "asked", "code"), [(True, "1", 1), (True, "0", 0), (False, "1", 0)])
def test_a_run_with_a_skipped_test_fails_where_that_is_asked_for(
    tmp_path: Path, skip: bool, asked: str, code: int, workers: str
) -> None:
    (tmp_path / "test_some.py").write_text(SKIPPING.replace("{skip}", str(skip)), "utf-8")
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests" / "conftest.py").read_bytes())
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env={**inherited, "ASSAY_NO_SKIPS": asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == code, answer.stdout


def interpreter(folder: Path, name: str, body: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
    file.chmod(0o755)


def make_venv(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(ROOT / "tools" / "make_venv.sh"), "venv"],
        cwd=path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_set_up_passes_over_pythons_that_do_not_fit(tmp_path: Path) -> None:
    """A shim that does not run, an old one, one without ensurepip; then one that fits."""
    interpreter(tmp_path, "python3.13", "exit 127")
    interpreter(tmp_path, "python3.12", 'case "$2" in *version_info*) exit 1;; esac; exit 0')
    interpreter(tmp_path, "python3.11", 'case "$2" in *ensurepip*) exit 1;; esac; exit 0')
    answer = make_venv(tmp_path, PATH=str(tmp_path))
    assert answer.returncode == 1
    assert "Found python3.11, but without the parts" in answer.stderr.replace("  ", " ")
    interpreter(
        tmp_path, "python3", 'case "$1" in -m) echo "made $4" >&2;; --version) echo Python 3.14.0;; esac'
    )
    answer = make_venv(tmp_path, PATH=str(tmp_path))
    assert (answer.returncode, answer.stderr) == (0, "made venv\n")
    assert "Python 3.14.0" in answer.stdout


def test_set_up_without_any_python_says_what_to_do(tmp_path: Path) -> None:
    assert "No Python 3.11 or later was found" in make_venv(tmp_path, PATH=str(tmp_path)).stderr
    named = make_venv(tmp_path, PATH=str(tmp_path), PYTHON="/nowhere/python3")
    assert (named.returncode, "PYTHON=/nowhere/python3" in named.stderr) == (1, True)
