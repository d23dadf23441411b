"""Where the server of a project keeps its state, for an ordinary user and for root.

An ordinary user's state lies in `<project>/.assay/postgres`. Root's server runs as another user, who may
not be able to reach the project: its state lies under a folder of our own, named by the project's path and
by a token kept in the project, so that a new clone at an old path gets a new database.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from assay.adapters.embedded.account import owner_of
from assay.adapters.embedded.locks import FileLock
from assay.adapters.embedded.state import Places, write_private
from assay.domain.failures import ConfigurationError

_DEFAULT_HOME = Path("/var/lib/assay")
_PRIVATE, _PASSABLE, _OPEN = 0o700, 0o711, 0o755
_TOKEN_LENGTH = 12


def is_root() -> bool:
    """True when PostgreSQL would refuse to run as this process's user."""
    return os.geteuid() == 0


def server_home() -> Path | None:
    """Our own folder outside of projects: `ASSAY_SERVER_HOME`, for root `/var/lib/assay`, else None."""
    return _named_home() or (_DEFAULT_HOME if is_root() else None)


def _named_home() -> Path | None:
    named = os.environ.get("ASSAY_SERVER_HOME", "").strip()
    return Path(named).expanduser().resolve() if named else None


def find_places(project: Path) -> Places | None:
    """The state of this project's server as it is; None where nothing was made yet. Changes nothing."""
    try:
        folder = _existing(project)
        return Places(folder) if folder is not None and folder.is_dir() else None
    except PermissionError as error:
        raise ConfigurationError(
            f"{error.filename or project} cannot be read: run assay as the user that made it."
        ) from error


def _existing(project: Path) -> Path | None:
    home = server_home()
    if home is None:
        return project / ".assay" / "postgres"
    token = read_token(project)
    return None if token is None else home / "projects" / _name(project, token)


def make_places(project: Path) -> Places:
    """The state of this project's server, its folders made where missing, readable by nobody else."""
    try:
        return Places(_make(project))
    except OSError as error:
        place = error.filename or project
        raise ConfigurationError(
            f"The embedded database cannot keep its files in {place} ({error.strerror}): make that folder "
            "writable, set ASSAY_SERVER_HOME to one that is, or set ASSAY_DATABASE_URL."
        ) from error


def _make(project: Path) -> Path:
    home = server_home()
    if home is None:
        _project_folder(project)
        return _folder(project / ".assay" / "postgres", _PRIVATE)
    _refuse_foreign(project)
    mode = _OPEN if is_root() else _PRIVATE
    for missing in reversed([parent for parent in home.parents if not parent.exists()]):
        _folder(missing, mode)
    _folder(home, mode)
    _folder(home / "projects", mode)
    folder = home / "projects" / _name(project, _token(project))
    _folder(folder, _PASSABLE if is_root() else _PRIVATE)
    marker = folder / "project"
    if not marker.exists():
        write_private(marker, f"{project}\n")
    return folder


def _folder(path: Path, mode: int) -> Path:
    """Make one folder with exactly `mode`, or check that the one there is ours and leave it as it is."""
    try:
        path.mkdir(mode=_PRIVATE)
    except FileExistsError:
        owner = owner_of(path)
        if owner.uid != os.geteuid():
            raise ConfigurationError(
                f"{path} belongs to user {owner.name}: run assay as that user, or set ASSAY_DATABASE_URL."
            ) from None
        return path
    path.chmod(mode)  # the umask may have taken from it
    return path


def _project_folder(project: Path) -> Path:
    """`.assay` in the project, which keeps itself out of version control."""
    folder = project / ".assay"
    if not folder.exists():
        owner = project.stat()
        folder.mkdir(mode=_PRIVATE, exist_ok=True)
        ignore = folder / ".gitignore"
        ignore.write_text("*\n", "utf-8")
        if is_root():  # the project's user keeps the use of it
            for made in (folder, ignore):
                os.chown(made, owner.st_uid, owner.st_gid)
    return folder


def _refuse_foreign(project: Path) -> None:
    """Root does not make a second database beside one that the project's user has already."""
    theirs = project / ".assay" / "postgres"
    if is_root() and _named_home() is None and (theirs / "data").is_dir():
        raise ConfigurationError(
            f"The embedded database of {project} belongs to user {owner_of(theirs).name}: "
            "run assay as that user, or set ASSAY_SERVER_HOME for a database of root's own."
        )


def _name(project: Path, token: str) -> str:
    return f"{hashlib.sha256(os.fsencode(project)).hexdigest()[:16]}-{token}"


def _token_file(project: Path) -> Path:
    return project / ".assay" / "server-token"


def project_of(folder: Path) -> Path | None:
    """The project whose server's state lies in `folder`; None when that is not known."""
    try:
        text = (folder / "project").read_text("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Path(text.removesuffix("\n"))


def read_token(project: Path) -> str | None:
    """The token in a project that names its database outside of it; None where there is none."""
    try:
        text = _token_file(project).read_text("utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return text if len(text) == _TOKEN_LENGTH and text.isalnum() else None


def _token(project: Path) -> str:
    """The token in the project, made where missing; two that come at once agree on one."""
    found = read_token(project)
    if found is not None:
        return found
    _project_folder(project)
    with FileLock(_token_file(project)) as lock:
        lock.acquire()
        found = read_token(project)
        if found is None:
            found = secrets.token_hex(_TOKEN_LENGTH // 2)
            os.pwrite(lock.fileno(), f"{found}\n".encode(), 0)
            os.fsync(lock.fileno())
    return found
