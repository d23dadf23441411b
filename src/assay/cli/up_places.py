"""Where `assay up` keeps what it knows, in the project's `.assay/up`: plan, state, locks, logs."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path

from assay.adapters.embedded.account import owner_of
from assay.adapters.embedded.state import write_private
from assay.config import STATE_DIR
from assay.domain.failures import ConfigurationError

_PRIVATE = 0o700


@dataclass(frozen=True, slots=True)
class UpPlaces:
    """The files of one project. Locks: `start.lock` is held by whoever starts or ends things,
    `supervisor.lock` by the living supervisor, `NAME.lock` by the living process NAME."""

    folder: Path

    @property
    def start_lock(self) -> Path:
        return self.folder / "start.lock"

    @property
    def supervisor_lock(self) -> Path:
        return self.folder / "supervisor.lock"

    @property
    def plan(self) -> Path:
        return self.folder / "plan.json"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def stop_request(self) -> Path:
        return self.folder / "stop-requested"

    def lock(self, name: str) -> Path:
        return self.folder / f"{name}.lock"

    def pid_file(self, name: str) -> Path:
        return self.folder / f"{name}.pid"

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


@dataclass(frozen=True, slots=True)
class Order:
    """One process: its name and the arguments of `assay`. `broker`: `--brokers` is added when it starts.
    `port`: it is ready once this port of 127.0.0.1 answers."""

    name: str
    arguments: tuple[str, ...]
    broker: bool = False
    port: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is up. `brokers` names brokers of the user's own, empty for the embedded one; `asked` is what the
    command was given, with the pipeline's version: another one is another plan."""

    name: str
    asked: tuple[str, ...]
    project: str
    working_folder: str
    topics: tuple[str, ...]
    orders: tuple[Order, ...]
    brokers: str = ""


class Phase(StrEnum):
    """What is known of a process."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    ENDED = "ended"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One process as its supervisor sees it. `restarts`: how often it was started again; `code`: its last
    exit code, minus the signal that killed it; `words`: its log's last, where it ended by itself."""

    name: str
    phase: Phase = Phase.STARTING
    pid: int = 0
    restarts: int = 0
    code: int | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class UpState:
    """The supervisor's last word. `ready`: all was started; `trouble`: why something is not there."""

    supervisor: int = 0
    ready: bool = False
    bootstrap: str = ""
    trouble: str = ""
    processes: tuple[ProcessState, ...] = field(default=())


def find_up(project: Path) -> UpPlaces | None:
    """What is there of this project; None where nothing was ever up. Changes nothing."""
    folder = project / STATE_DIR / "up"
    return UpPlaces(folder) if folder.is_dir() else None


def make_up(project: Path) -> UpPlaces:
    """The folder, made where missing, readable by nobody else."""
    folder = project / STATE_DIR / "up"
    try:
        if not folder.parent.exists():  # with a database of their own nobody has made it yet
            folder.parent.mkdir(mode=_PRIVATE)
            (folder.parent / ".gitignore").write_text("*\n", "utf-8")
        folder.mkdir(mode=_PRIVATE)
    except FileExistsError:
        owner = owner_of(folder)
        if owner.uid != os.geteuid():
            raise ConfigurationError(
                f"{folder} belongs to user {owner.name}: run assay as that user."
            ) from None
    except OSError as error:
        raise ConfigurationError(
            f"{folder} cannot be made ({error.strerror}): make that possible."
        ) from error
    return UpPlaces(folder)


def write_plan(places: UpPlaces, plan: Plan) -> None:
    """Replace the plan in one step."""
    write_private(places.plan, json.dumps(asdict(plan)))


def read_plan(places: UpPlaces) -> Plan | None:
    """The last plan; None where there is none that can be read."""
    try:
        values = json.loads(places.plan.read_text("utf-8"))
        orders = tuple(Order(**{**each, "arguments": tuple(each["arguments"])}) for each in values["orders"])
        lists = {name: tuple(values[name]) for name in ("asked", "topics")}
        return Plan(**{**values, **lists, "orders": orders})
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def write_state(places: UpPlaces, state: UpState) -> None:
    """Replace the state in one step."""
    write_private(places.state, json.dumps(asdict(state)))


def read_state(places: UpPlaces) -> UpState:
    """The last state written; an empty one where there is none."""
    try:
        values = json.loads(places.state.read_text("utf-8"))
        known = {item.name for item in fields(ProcessState)}
        found = (
            {**{key: value for key, value in each.items() if key in known}, "phase": Phase(each["phase"])}
            for each in values["processes"]
        )
        return UpState(**{**values, "processes": tuple(ProcessState(**each) for each in found)})
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return UpState()
