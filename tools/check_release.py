"""The version is the same everywhere, and the changelog has a place for what comes next."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_DUNDER = re.compile(r"^__version__\s*=\s*[\"']([^\"']+)[\"']", re.MULTILINE)


def problems(root: Path) -> list[str]:
    """One sentence per disagreement."""
    found: list[str] = []
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    declared = str(project["version"])
    try:
        installed = version(str(project["name"]))
    except PackageNotFoundError:
        found.append("the package is not installed in this environment; run make check")
    else:
        if installed != declared:
            found.append(
                f"pyproject.toml says {declared}, the installed package {installed}; install it again"
            )
    package = root / "src" / str(project["name"]) / "__init__.py"
    written = _DUNDER.search(package.read_text("utf-8")) if package.is_file() else None
    if written and written[1] != declared:
        found.append(f"pyproject.toml says {declared}, {package.relative_to(root)} {written[1]}")
    changelog = root / "CHANGELOG.md"
    if not changelog.is_file() or "\n## [Unreleased]" not in changelog.read_text("utf-8"):
        found.append("CHANGELOG.md: the section [Unreleased] is missing")
    return found
