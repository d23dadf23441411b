"""A throw-away project with what a drill needs: database, broker, vendor; gone when the drill is."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Final
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import make_conninfo

from assay.adapters.embedded.broker import EmbeddedBroker
from assay.adapters.embedded.server import EmbeddedServer
from assay.adapters.kafka.security import Connection
from assay.adapters.kafka.topics import make_topics
from assay.app import database, open_vault_to_write
from assay.cli.drill_cast import Cast, Part
from assay.cli.errors import INTERRUPTED
from assay.config import Settings
from assay.demo.generator import write_jsonl
from assay.domain.failures import AssayError
from assay.drill.downstream import make_tables
from assay.drill.moments import ERROR_RATE, ORDINARY

TICKETS: Final = "tickets.jsonl"
JOURNAL: Final = "vendor.jsonl"
TRAINING: Final = "training.jsonl"
PRODUCED: Final = "produced.txt"
RECORDS_TOPIC: Final = "tickets"
EVENTS_TOPIC: Final = "labels"
SCRIPT_KEY: Final = "drill-script"
ASSAY_KEY: Final = "drill-assay"
DOWNSTREAM: Final = "downstream"
_AWAY: Final = "Once you have deleted the folder, `assay db prune` finds a database that was outside of it."
_LATENCY_SECONDS: Final = 0.05
_PRICE: Final = "0.25,2.00"


class DrillInterrupted(AssayError):
    """Ctrl-C, or SIGTERM."""

    exit_code = INTERRUPTED


@dataclass(frozen=True, slots=True)
class Stage:
    """What stands ready. `url` and `downstream_url` hold a password; never shown."""

    folder: Path
    url: str
    downstream_url: str
    connection: Connection
    vendor_url: str

    def change_vendor(self, settings: Mapping[str, float]) -> None:
        """Change the vendor's settings, from now on."""
        place = urlsplit(self.vendor_url)
        connection = HTTPConnection(place.hostname or "", place.port, timeout=10)
        try:
            connection.request("POST", "/practice/settings", json.dumps(dict(settings)).encode())
            status = connection.getresponse().status
        finally:
            connection.close()
        if status != 200:
            raise AssayError(f"The practice vendor refused a change of its settings (status {status}).")


def settings_of(folder: Path) -> Settings:
    """The settings of a drill's project: nothing of the caller's own database or keys."""
    return Settings(project=folder, database_url=None, environment={})


def environment_of(folder: Path) -> dict[str, str]:
    """What the drill's processes see: none of the caller's own settings and keys."""
    own = {name: value for name, value in os.environ.items()
           if not name.startswith("ASSAY_") or name == "ASSAY_SERVER_HOME"}  # fmt: skip
    return {**own, "ASSAY_PROJECT": str(folder), "ASSAY_LOG": "human"}


def downstream_of(url: str) -> str:
    """The consumer's database, on the same server."""
    return make_conninfo(url, dbname=DOWNSTREAM)


@contextmanager
def throw_away(kept: Callable[[str], None] | None = None) -> Iterator[Path]:
    """A folder with a project in it. It goes with all that runs in it, however the block ends.

    With `kept`, what runs is ended, the folder stays, and `kept` is told where it is.
    """
    with _interruptible():
        folder = Path(tempfile.mkdtemp(prefix="assay-drill-")).resolve()
        try:
            yield folder
        finally:
            with _undisturbed():
                EmbeddedBroker(folder).stop(force=True)
                if kept is None:
                    EmbeddedServer(folder).remove()
                    shutil.rmtree(folder)
                else:
                    EmbeddedServer(folder).stop(force=True)
                    kept(f"Kept in {folder}; `assay status` and the others work in there. {_AWAY}")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the block alike, and once: a second must not disturb the clearing up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise DrillInterrupted("Interrupted; what the drill had started is ended.")

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Nobody interrupts: what is half removed would be left behind."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def set_up(folder: Path, cast: Cast, tickets: int, seed: int) -> Iterator[Stage]:
    """Make the project and start what it needs, the vendor among the cast."""
    for name in ("tickets.py", "tickets.md"):
        (folder / name).write_text((files("assay.demo") / name).read_text("utf-8"), encoding="utf-8")
    write_jsonl(folder / TICKETS, tickets, seed)
    settings = settings_of(folder)
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(folder).acquire())
        url = stack.enter_context(database(settings))
        open_vault_to_write(settings, url)
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(f"CREATE DATABASE {DOWNSTREAM}".encode())
        make_tables(downstream_of(url))
        connection = Connection(broker.bootstrap)
        make_topics(connection, (RECORDS_TOPIC, EVENTS_TOPIC))
        ready = folder / "vendor.ready"
        cast.start(Part("vendor", "assay.vendor", _vendor(folder, ready, seed)))
        cast.wait_for(lambda: not ready.exists(), "the practice vendor")
        yield Stage(folder, url, downstream_of(url), connection, ready.read_text("utf-8").strip())


def _vendor(folder: Path, ready: Path, seed: int) -> tuple[str, ...]:
    shares = [f"--set={name}={share}" for name, share in ORDINARY.items()]
    return ("--gold", f"{folder / TICKETS}#category", "--seed", str(seed), "--latency", str(_LATENCY_SECONDS),
            "--error-rate", str(ERROR_RATE), "--price", _PRICE, "--journal", str(folder / JOURNAL),
            "--ready-file", str(ready), *shares)  # fmt: skip
