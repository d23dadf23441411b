"""The pinned exports carry hashes, name no index and fit pyproject.toml and each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(\S+?)(?:\s*;.*?)?\s*\\?$")
# The engine of the local model has an export of its own.
_APART = frozenset({"embedded", "locallm"})
_ADDRESS = re.compile(r"https?:|--(?:extra-)?index|--find-links|--trusted-host")


def problems(root: Path) -> list[str]:
    """One sentence per requirement that is not pinned, not hashed or out of step."""
    found: list[str] = []
    pins: dict[str, dict[str, set[str]]] = {}
    for name, needs in _wanted(root).items():
        file = root / "requirements" / name
        if not file.is_file():
            found.append(f"requirements/{name}: it is missing; run make requirements")
            continue
        text = file.read_text("utf-8")
        pins[name] = _pins(text)
        found += [f"requirements/{name}: {problem}" for problem in _form_problems(text)]
        found += [f"requirements/{name}: {problem}" for problem in _need_problems(needs, pins[name])]
    found += [
        f"requirements/{name}: {package} differs from dev.txt; run make requirements"
        for name in sorted(pins.keys() - {"dev.txt"})
        for package, versions in pins[name].items()
        if pins.get("dev.txt", {}).get(package, versions) != versions
    ]
    return found + [
        f"requirements/demo.txt: {package} is not in dev.txt; run make requirements"
        for package in pins.get("demo.txt", {}).keys() - pins.get("dev.txt", {}).keys()
    ]


def _wanted(root: Path) -> dict[str, list[str]]:
    """The exports and what each must have pins for. Weights of the local model are data of nobody's needs."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    build = (root / "requirements" / "build.in").read_text("utf-8").splitlines()
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    runtime = [
        *project["project"]["dependencies"],
        *extras["embedded"],
        *(line for line in build if line and not line.startswith("#")),
    ]
    tested = [need for name, needs in extras.items() if name not in _APART for need in needs]
    wanted = {"demo.txt": runtime, "dev.txt": [*runtime, *tested, *groups["dev"]]}
    if "bench" in groups:
        wanted["bench.txt"] = [*wanted["dev.txt"], *groups["bench"]]
    if "locallm" in extras:
        wanted |= {"local.txt": [*runtime, *extras["locallm"]], "local-data.txt": []}
    return wanted


def _pins(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if match := _PIN.match(line):
            found.setdefault(canonicalize_name(match[1]), set()).add(match[2])
    return found


def _form_problems(text: str) -> list[str]:
    found = [
        f"line {n} names an address" for n, line in enumerate(text.splitlines(), 1) if _ADDRESS.search(line)
    ]
    entries = re.split(r"(?<!\\)\n", text)
    for entry in entries:
        first = entry.split("\n", 1)[0].strip()
        if first and not first.startswith("#"):
            if not _PIN.match(first):
                found.append(f"not pinned: {first.removesuffix(chr(92)).strip()}")
            elif "--hash=sha256:" not in entry:
                found.append(f"no hash: {first}")
    return found


def _need_problems(needs: list[str], pins: dict[str, set[str]]) -> list[str]:
    found: list[str] = []
    for need in map(Requirement, needs):
        versions = pins.get(canonicalize_name(need.name), set())
        if not any(need.specifier.contains(version, prereleases=True) for version in versions):
            found.append(f"{need} is not there; run make requirements")
    return found
