"""What `assay down` does once its options are read."""

from __future__ import annotations

import time
from typing import Final

import typer

from assay.adapters.embedded.broker import EmbeddedBroker
from assay.adapters.embedded.locks import FileLock, held_exclusively
from assay.adapters.embedded.server import EmbeddedServer
from assay.adapters.kafka.security import Connection
from assay.cli.errors import BROKEN, OK
from assay.cli.said import complain, say
from assay.cli.tables import count
from assay.cli.up_places import Phase, Plan, ProcessState, UpPlaces, find_up, read_plan, read_state
from assay.cli.up_plan import WORKER, group_of
from assay.cli.up_supervised import END_SECONDS, Supervised, end_all
from assay.config import Settings, load_settings
from assay.domain.failures import AssayError

_POLL_SECONDS: Final = 0.05
_LOCK_WAIT_SECONDS: Final = 150.0
_SILENCE_SECONDS: Final = 0.7


def end(wait: float, *, force: bool) -> int:
    """End everything and say what was done; the exit code."""
    settings = load_settings()
    places = find_up(settings.project)
    if places is None:
        typer.echo("Nothing is up in this project.")
        return OK
    with FileLock(places.start_lock) as lock:
        if not lock.acquire(timeout=_LOCK_WAIT_SECONDS):
            raise AssayError("Another `assay up` or `assay down` is at work here: try again later.")
        plan = read_plan(places)
        if plan is None or not _anything_lives(places, plan):
            typer.echo("Nothing is up in this project.")
            return OK
        lost = _held_by_broker(settings, plan) if force else ""
        if not force and (unread := _unread_after(wait, settings, places, plan)):
            complain(
                f"{count(unread, 'message')} in {plan.topics[0]} could not be read yet and would end with "
                "the embedded broker, which keeps them in memory: wait, or `assay down --force`. Nothing "
                "was ended.",
                BROKEN,
            )
            return BROKEN
        for state in _end_processes(places, plan):
            how = "did not end in time and was killed" if state.phase is Phase.KILLED else "ended"
            typer.echo(f"{state.name}: {how}.")
        if _end_servers(settings, plan) and lost:
            typer.echo(lost)
    typer.echo("What was read is in the database; `assay up` goes on with it.")
    return OK


def _anything_lives(places: UpPlaces, plan: Plan) -> bool:
    locks = [places.supervisor_lock, *(places.lock(order.name) for order in plan.orders)]
    return any(map(held_exclusively, locks))


def _unread_after(wait: float, settings: Settings, places: UpPlaces, plan: Plan) -> int:
    """Messages of the embedded broker that no worker has brought to the database; waits for them to be."""
    deadline, said = time.monotonic() + wait, False
    while True:
        status = EmbeddedBroker(settings.project).status()
        if plan.brokers or not status.running or status.port is None:
            return 0
        unread = _unread(status.port, plan)
        waiting = any(
            each.name == WORKER and each.phase is Phase.WAITING for each in read_state(places).processes
        )
        if not unread or waiting or time.monotonic() > deadline:
            return unread
        if not said:
            said = True
            say(f"Waiting for {count(unread, 'message')} in {plan.topics[0]} to be read.")


def _end_processes(places: UpPlaces, plan: Plan) -> list[ProcessState]:
    """Have the supervisor end them; where there is none, end them from here."""
    deadline = time.monotonic() + (len(plan.orders) + 1) * END_SECONDS
    before = {each.name for each in read_state(places).processes}
    supervised = held_exclusively(places.supervisor_lock)
    while held_exclusively(places.supervisor_lock):
        places.stop_request.touch(mode=0o600)
        if time.monotonic() > deadline:
            raise AssayError(f"The supervisor has not ended yet: see {places.log('supervisor')}, or kill it.")
        time.sleep(_POLL_SECONDS)
    places.stop_request.unlink(missing_ok=True)
    ended: list[ProcessState] = []
    processes = [Supervised(places, plan, order) for order in plan.orders]
    end_all(processes, END_SECONDS, ended.append)
    if supervised:
        of_supervisor = [each for each in read_state(places).processes if each.name in before]
        ended = [
            each for each in reversed(of_supervisor) if each.phase in (Phase.ENDED, Phase.KILLED)
        ] + ended
    return ended


def _end_servers(settings: Settings, plan: Plan) -> bool:
    """Stop what is embedded, unless other commands use it; whether the broker has ended."""
    gone = False
    stops = []
    if not plan.brokers:
        stops.append(("broker", EmbeddedBroker(settings.project).stop))
    if settings.database_url is None:
        stops.append(("database", EmbeddedServer(settings.project).stop))
    for name, stop in stops:
        try:
            typer.echo(f"{name}: {'ended' if stop() else 'had ended'}.")
            gone |= name == "broker"
        except AssayError:
            typer.echo(f"{name}: left running, for another command uses it.")
    return gone


def _held_by_broker(settings: Settings, plan: Plan) -> str:
    """What ends with the embedded broker, in a sentence; empty where there is none."""
    status = EmbeddedBroker(settings.project).status()
    if plan.brokers or not status.running:
        return ""
    topics = f"The topics {', '.join(plan.topics)} are gone with the broker, which kept them in memory"
    try:
        unread = 0 if status.port is None else _unread(status.port, plan)
    except AssayError:  # it does not answer: what it held cannot be counted any more
        return f"{topics}, and all messages that no worker had read: send those again."
    if not unread:
        return f"{topics}; the worker had read every message of {plan.topics[0]}."
    return (
        f"{topics}: lost are {count(unread, 'message')} of {plan.topics[0]} that no worker had read. Send "
        "them again."
    )


def _unread(port: int, plan: Plan) -> int:
    from assay.adapters.kafka.topics import count_unread

    connection = Connection(f"127.0.0.1:{port}")
    return count_unread(connection, plan.topics[0], group_of(plan.name), silence_seconds=_SILENCE_SECONDS)
