"""What `assay up` does once its options are read."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Final

import typer

from assay.adapters.embedded.locks import FileLock, held_exclusively
from assay.adapters.embedded.log import last_words, length
from assay.adapters.kafka.security import connection_of
from assay.app import database
from assay.cli.errors import BROKEN, OK
from assay.cli.json_text import to_json
from assay.cli.said import say
from assay.cli.up_page import is_sound, page_lines, page_object
from assay.cli.up_places import (
    Plan,
    UpPlaces,
    UpState,
    find_up,
    make_up,
    read_plan,
    read_state,
    write_plan,
)
from assay.cli.up_plan import UpOptions, plan_of
from assay.config import Settings, load_settings
from assay.domain.failures import AssayError, ConfigurationError

_READY_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.05
_LOCK_WAIT_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class _Asked:
    plan: Plan
    settings: Settings
    places: UpPlaces


def start(options: UpOptions, *, foreground: bool, as_json: bool) -> int:
    """Bring everything up, or find it up, and show it; the exit code."""
    settings = load_settings()
    plan = plan_of(options, settings)
    with database(settings, say):  # also makes `.assay`, and the schema
        asked = _Asked(plan, settings, make_up(settings.project))
        with FileLock(asked.places.start_lock) as lock:
            if not lock.acquire(timeout=_LOCK_WAIT_SECONDS):
                raise AssayError("Another `assay up` or `assay down` is at work here: try again later.")
            found = _join(asked)
            if found is None and plan.brokers:
                from assay.adapters.kafka.broker_check import ask_brokers

                ask_brokers(connection_of(settings.environment, plan.brokers))
            if found is None and foreground:
                from assay.cli.up_foreground import supervise_here

                write_plan(asked.places, plan)
                return supervise_here(asked.places, plan, settings, lock)
            if found is None:
                _launch(asked)
            state = _until_ready(asked.places)
    _show(asked.places, found or plan, state, settings, as_json=as_json)
    if found is not None:
        say(f"{plan.name} was up already.")
    return OK if is_sound(state, living=True) else BROKEN


def show_status(*, as_json: bool) -> int:
    """Show what is up; 1 where something is not."""
    settings = load_settings()
    places = find_up(settings.project)
    plan = None if places is None else read_plan(places)
    living = places is not None and held_exclusively(places.supervisor_lock)
    if places is None or plan is None or not (living or _any_lives(places, plan)):
        typer.echo(
            to_json({"up": False}) if as_json else "Nothing is up in this project; see `assay up --help`."
        )
        return BROKEN
    state = read_state(places)
    _show(places, plan, state, settings, as_json=as_json, living=living)
    return OK if is_sound(state, living=living) else BROKEN


def _join(asked: _Asked) -> Plan | None:
    """The plan that is up already, where it is this one; raises `ConfigurationError` for another."""
    places, last = asked.places, read_plan(asked.places)
    living = held_exclusively(places.supervisor_lock)
    if last is None or not (living or _any_lives(places, last)):
        return None
    if last.asked != asked.plan.asked:
        what = "with other options, or as it was before a change" if last.name == asked.plan.name else ""
        raise ConfigurationError(
            f"{' '.join(filter(None, (last.name, 'is up here', what)))}: end it first with `assay down`."
        )
    if living:
        return last
    say("The supervisor was gone; a new one takes over what runs.")
    _launch(_Asked(last, asked.settings, places))
    return last


def _launch(asked: _Asked) -> None:
    """Start a supervisor, in the background and in a session of its own, and wait until it has begun."""
    places = asked.places
    write_plan(places, asked.plan)
    places.state.unlink(missing_ok=True)
    log = places.log("supervisor")
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        since = length(log)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "assay.cli.up_supervisor", str(places.folder)],
            stdin=subprocess.DEVNULL, stdout=descriptor, stderr=descriptor, start_new_session=True,
            cwd=asked.plan.working_folder, env={**os.environ, "ASSAY_PROJECT": asked.plan.project},
        )  # fmt: skip
    finally:
        os.close(descriptor)
    while not held_exclusively(places.supervisor_lock):
        if process.poll() is not None:
            words = read_state(places).trouble or last_words(log, since) or "it ended without a word"
            raise AssayError(
                f"What `assay up` starts could not begin: {words.rstrip('.')}; its log is {log}."
            )
        time.sleep(_POLL_SECONDS)


def _until_ready(places: UpPlaces) -> UpState:
    """Wait until each process runs, or has ended once."""
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        state = read_state(places)
        if state.ready or time.monotonic() > deadline:
            return state
        if not held_exclusively(places.supervisor_lock):
            raise AssayError(
                f"{state.trouble or 'The supervisor ended.'} Its log is {places.log('supervisor')}; then "
                "`assay up` again."
            )
        time.sleep(_POLL_SECONDS)


def _any_lives(places: UpPlaces, plan: Plan) -> bool:
    return any(held_exclusively(places.lock(order.name)) for order in plan.orders)


def _show(
    places: UpPlaces, plan: Plan, state: UpState, settings: Settings, *, as_json: bool, living: bool = True
) -> None:
    if as_json:
        typer.echo(to_json(page_object(places, plan, state, settings, living=living)))
        return
    for line in page_lines(places, plan, state, settings, living=living):
        typer.echo(line)
