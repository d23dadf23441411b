"""Where the state of one server lies, and what its supervisor says about itself."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path


class Phase(StrEnum):
    """What the supervisor is doing."""

    STOPPED = "stopped"
    SETTING_UP = "setting_up"
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ServerState:
    """The supervisor's last word. `run` names one life of a supervisor; `message` explains a failure."""

    phase: Phase = Phase.STOPPED
    run: str = ""
    supervisor_pid: int = 0
    port: int = 0
    version: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one server, all in one folder.

    Locks: `start.lock` is held by whoever starts or stops the server; `clients.lock` is shared by every
    lease; `supervisor.lock` is held by the living supervisor; `server.lock` is handed to `postgres` (or
    `initdb`) and by it to each of its children, so it is free only when none of them lives.
    """

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def password(self) -> Path:
        return self.folder / "password"

    @property
    def log(self) -> Path:
        return self.folder / "postgres.log"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def stop_request(self) -> Path:
        return self.folder / "stop-requested"

    @property
    def start_lock(self) -> Path:
        return self.folder / "start.lock"

    @property
    def clients_lock(self) -> Path:
        return self.folder / "clients.lock"

    @property
    def supervisor_lock(self) -> Path:
        return self.folder / "supervisor.lock"

    @property
    def server_lock(self) -> Path:
        return self.folder / "server.lock"


def read_state(places: Places) -> ServerState:
    """The last state written; a stopped one where there is none."""
    try:
        values = json.loads(places.state.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return ServerState()
    known = {item.name for item in fields(ServerState)}  # another release may have written more, or less
    return ServerState(**{**{k: v for k, v in values.items() if k in known}, "phase": Phase(values["phase"])})


def write_state(places: Places, state: ServerState) -> None:
    """Replace the state in one step."""
    write_private(places.state, json.dumps(asdict(state)))


def write_private(path: Path, text: str) -> None:
    """Write a file (0600) so that readers, and a kill, see the old text or the new one whole."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
