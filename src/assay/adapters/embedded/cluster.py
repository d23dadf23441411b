"""Making a database cluster, and making sure that one found on disk may be started."""

from __future__ import annotations

import locale
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from assay.adapters.embedded.binaries import Binaries
from assay.adapters.embedded.locks import FileLock
from assay.adapters.embedded.log import open_log
from assay.adapters.embedded.postmaster import major_version, read_postmaster
from assay.adapters.embedded.processes import CleanProcess, Identity, Life, life_of, server_environment
from assay.adapters.embedded.state import Places, write_private
from assay.domain.failures import ConfigurationError

SUPERUSER = "assay"
_BUILTIN_LOCALES_SINCE = 17


def check_version(data: Path, binaries: Binaries) -> None:
    """Refuse a data folder that another major version made."""
    made_by = major_version(data)
    if made_by != binaries.major:
        raise ConfigurationError(
            f"The database in {data.absolute()} was made by PostgreSQL {made_by} and the server here is "
            f"{binaries.version}: set ASSAY_PG_BIN to the bin folder of a PostgreSQL {made_by}, or move the "
            "database away to start empty."
        )


def password_of(places: Places) -> str:
    """The superuser's password; ConfigurationError when the file is gone."""
    try:
        return places.password.read_text("ascii").strip()
    except FileNotFoundError:
        raise ConfigurationError(
            f"The password file {places.password} is missing: restore it, "
            "or move its folder away to start empty."
        ) from None


def create_cluster(
    places: Places, binaries: Binaries, identity: Identity | None, lock: FileLock, tick: Callable[[], None]
) -> int:
    """`initdb` into a draft that is renamed when whole, so a kill leaves no half cluster; its exit status.

    `lock` (the server lock, held) is handed to `initdb`: who comes after a kill waits for its end.
    """
    _remove_drafts(places.folder)
    if not places.password.exists():
        write_private(places.password, secrets.token_hex(32) + "\n")
    draft = places.folder / f"data.new-{secrets.token_hex(4)}"
    secret = places.folder / f"{draft.name}.password"
    draft.mkdir(mode=0o700)
    write_private(secret, password_of(places) + "\n")
    if identity is not None:
        os.chown(draft, identity.uid, identity.gid)
        os.chown(secret, identity.uid, identity.gid)
    with open_log(places) as log:
        process = CleanProcess(
            _initdb_command(binaries, draft, secret),
            environment=server_environment(),
            output=log,
            identity=identity,
            keep=(lock.fileno(),),
        )
    try:
        while process.poll() is None:
            tick()
    finally:
        process.kill()
        process.wait()
        secret.unlink()
    if process.returncode == 0:
        draft.rename(places.data)
    else:
        _remove_drafts(places.folder)
    return process.returncode


def _initdb_command(binaries: Binaries, draft: Path, secret: Path) -> list[str]:
    command = [str(binaries.initdb), "-D", str(draft.absolute()), "--username", SUPERUSER]
    command += [
        "--auth=scram-sha-256",
        f"--pwfile={secret.absolute()}",
        "--encoding=UTF8",
        "--data-checksums",
    ]
    if binaries.major >= _BUILTIN_LOCALES_SINCE:
        return [*command, "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return [*command, f"--locale={_libc_locale()}", "--lc-messages=C"]


def _libc_locale() -> str:
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    except locale.Error:
        return "C"
    locale.setlocale(locale.LC_CTYPE, before)
    return "C.UTF-8"


def _remove_drafts(folder: Path) -> None:
    for draft in folder.glob("data.new-*"):
        if draft.is_dir():
            shutil.rmtree(draft)
        else:
            draft.unlink()


def clear_stale_pid_file(data: Path) -> None:
    """Remove a `postmaster.pid` that PostgreSQL would mistake for a running server. The server lock is held.

    PostgreSQL clears the file itself when the process is gone, and it still checks the shared memory of this
    data folder. It refuses where the number answers to a signal: a zombie, or another program that was given
    the number after a restart of the machine or container.
    """
    found = read_postmaster(data)
    if found is None or life_of(found.pid) is Life.GONE:
        return
    if life_of(found.pid) is not Life.ZOMBIE and _is_server_of(found.pid, data):
        raise ConfigurationError(
            f"A PostgreSQL that assay did not start (process {found.pid}) uses {data.absolute()}: "
            "stop that one first."
        )
    (data / "postmaster.pid").unlink(missing_ok=True)


def _is_server_of(pid: int, data: Path) -> bool:
    """Whether `pid` works in the data folder, as every PostgreSQL does. Without /proc: not known, so no.

    PostgreSQL's own check of the folder's shared memory stands behind this one.
    """
    try:
        return Path(f"/proc/{pid}/cwd").resolve(strict=True) == data.resolve()
    except OSError:
        return False
