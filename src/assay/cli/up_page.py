"""What is up, one line per process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from assay.adapters.embedded.broker import EmbeddedBroker
from assay.adapters.embedded.locks import held_exclusively
from assay.adapters.embedded.server import EmbeddedServer
from assay.cli.up_places import Phase, Plan, ProcessState, UpPlaces, UpState
from assay.config import Settings


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    phase: str
    pid: int | None
    log: Path | None
    note: str = ""
    restarts: int = 0


def is_sound(state: UpState, *, living: bool) -> bool:
    """Whether everything is there: the supervisor, and each process running."""
    running = all(each.phase is Phase.RUNNING for each in state.processes)
    return living and running and bool(state.processes) and not state.trouble


def page_object(
    places: UpPlaces, plan: Plan, state: UpState, settings: Settings, *, living: bool
) -> dict[str, object]:
    """The page for programs."""
    records, events, dead = plan.topics
    return {
        "up": True, "sound": is_sound(state, living=living), "pipeline": plan.name, "produce_to": records,
        "read_from": events, "dead_letters": dead, "bootstrap": state.bootstrap or None,
        "trouble": state.trouble or None,
        "processes": [
            {**asdict(each), "log": None if each.log is None else str(each.log)}
            for each in _lines(places, plan, state, settings, living=living)
        ],
    }  # fmt: skip


def page_lines(
    places: UpPlaces, plan: Plan, state: UpState, settings: Settings, *, living: bool
) -> Iterator[str]:
    """The page for people."""
    records, events, dead = plan.topics
    yield f"{plan.name}: produce to {records}, read from {events} (what was refused: {dead})"
    yield f"bootstrap.servers={state.bootstrap or 'not known yet'}"
    if state.trouble:
        yield f"Trouble: {state.trouble}"
    rows = [("process", "state", "pid", "restarts", "")]
    rows += [
        (each.name, each.phase, str(each.pid or ""), str(each.restarts or ""), each.note)
        for each in _lines(places, plan, state, settings, living=living)
    ]
    for name, phase, pid, restarts, note in rows:
        yield f"  {name:<11}{phase:<9}{pid:>9}  {restarts:>8}  {note}".rstrip()
    yield f"Logs: {places.folder}/*.log; --json names those of database and broker"
    yield "Send: assay topic send FILE.jsonl   Read: assay topic read   End: assay down"


def _lines(
    places: UpPlaces, plan: Plan, state: UpState, settings: Settings, *, living: bool
) -> Iterator[_Line]:
    if settings.database_url is None:
        server = EmbeddedServer(settings.project).status()
        yield _Line("database", server.phase.value, server.pid, server.log)
    else:
        yield _Line("database", "yours", None, None, "ASSAY_DATABASE_URL")
    if plan.brokers:
        yield _Line("broker", "yours", None, None, "ASSAY_KAFKA_BROKERS")
    else:
        broker = EmbeddedBroker(settings.project).status()
        yield _Line("broker", broker.phase.value, broker.pid, broker.log, "in memory")
    for each in state.processes:
        phase = each.phase.value if living else _found(places, each)
        yield _Line(each.name, phase, each.pid or None, places.log(each.name), _note(each), each.restarts)
    yield _Line(
        "supervisor", "running" if living else "gone", state.supervisor if living else None,
        places.log("supervisor"), "" if living else "`assay up` brings it back",
    )  # fmt: skip


def _found(places: UpPlaces, state: ProcessState) -> str:
    return "running" if held_exclusively(places.lock(state.name)) else "gone"


def _note(state: ProcessState) -> str:
    if state.phase is not Phase.WAITING or state.code is None:
        return ""
    how = f"was killed by signal {-state.code}" if state.code < 0 else f"ended with {state.code}"
    # A line of a log for programs tells a person nothing here.
    words = "" if state.words.startswith("{") else state.words
    return f"{how}, is tried again" + (f" [{words}]" if words else "")
