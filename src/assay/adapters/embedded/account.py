"""The user that runs PostgreSQL when assay runs as root: PostgreSQL itself refuses to be root."""

from __future__ import annotations

import pwd
import shutil
from pathlib import Path

from assay.adapters.embedded.locks import FileLock
from assay.adapters.embedded.processes import Identity, output_of
from assay.domain.failures import ConfigurationError

NAME = "assay"
_HIGHEST_SYSTEM_UID = 999


def server_identity(home: Path) -> Identity:
    """The system user `assay`, made when missing; else `postgres` or `nobody`. Needs root.

    `home` is our folder, whose lock keeps two commands from making the user at once.
    """
    with FileLock(home / "account.lock") as lock:
        lock.acquire()
        found = _system_user(NAME)
        if found is None:
            _create()
            found = _system_user(NAME)
    for name in ("postgres", "nobody"):
        found = found or _system_user(name)
    if found is None:
        raise ConfigurationError(
            "PostgreSQL does not run as root and no system user could be made for it: "
            f"create one (useradd --system {NAME}), run assay as another user, or set ASSAY_DATABASE_URL."
        )
    return found


def owner_of(path: Path) -> Identity:
    """The user that owns `path`, by number: its name may be gone from the system."""
    owner = path.stat()
    try:
        name = pwd.getpwuid(owner.st_uid).pw_name
    except KeyError:
        name = str(owner.st_uid)
    return Identity(name, owner.st_uid, owner.st_gid)


def _system_user(name: str) -> Identity | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    # A person may be called assay as well: their account must not get at the data.
    person = name == NAME and entry.pw_uid > _HIGHEST_SYSTEM_UID
    return None if person or entry.pw_uid == 0 else Identity(name, entry.pw_uid, entry.pw_gid)


def _create() -> None:
    shell = next(
        (path for path in ("/usr/sbin/nologin", "/sbin/nologin") if Path(path).exists()), "/bin/false"
    )
    variants = (
        ("useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"),
        ("adduser", "-S", "-D", "-H"),
    )
    for program, *options in variants:
        found = shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin")
        if found is not None:
            status, _ = output_of([found, *options, "--shell" if program == "useradd" else "-s", shell, NAME])
            if status == 0:
                return
