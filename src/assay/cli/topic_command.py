"""What `assay topic` does once its options are read."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Final

import typer

from assay.adapters.embedded.broker import EmbeddedBroker
from assay.adapters.kafka.security import BROKERS, Connection, connection_of
from assay.cli.kafka_extra import require_kafka
from assay.cli.said import say
from assay.cli.tables import count
from assay.cli.up_places import find_up, read_plan
from assay.config import Settings, load_settings
from assay.domain.failures import ConfigurationError

_ID_KEYS: Final = ("record_id", "id")
_SILENCE_SECONDS: Final = 10.0
_KEPT_BYTES: Final = 64 << 20


def send(file: Path, topic: str | None, brokers: str | None) -> None:
    """Send the lines of a file."""
    require_kafka()
    from assay.adapters.kafka.broker_check import ask_brokers
    from assay.adapters.kafka.topics import send_values

    settings = load_settings()
    chosen = topic or _topic_of_plan(settings, 0)
    connection = _connection(settings, brokers)
    with _lines_of(file) as lines:
        check_lines(lines, "standard input" if str(file) == "-" else str(file))
        ask_brokers(connection)
        lines.seek(0)
        sent = send_values(connection, chosen, _keyed(lines))
    typer.echo(f"{count(sent, 'message')} sent to {chosen}.")


def read(topic: str | None, brokers: str | None, *, follow: bool, limit: int | None) -> None:
    """Print the messages of a topic."""
    require_kafka()
    from assay.adapters.kafka.broker_check import ask_brokers
    from assay.adapters.kafka.topics import read_values

    settings = load_settings()
    chosen = topic or _topic_of_plan(settings, 1)
    connection = _connection(settings, brokers)
    ask_brokers(connection)
    values = read_values(connection, chosen, silence_seconds=None if follow else _SILENCE_SECONDS)
    shown = 0
    for value in islice(values, limit):
        typer.echo(value.decode("utf-8", "replace"))
        shown += 1
    if not shown:
        say(f"No message came from {chosen} within {_SILENCE_SECONDS:.0f} seconds.")


@contextmanager
def _lines_of(file: Path) -> Iterator[IO[bytes]]:
    """The lines, to be read twice: standard input is kept until it has ended."""
    if str(file) != "-":
        with file.open("rb") as lines:
            yield lines
        return
    with SpooledTemporaryFile(max_size=_KEPT_BYTES) as kept:
        shutil.copyfileobj(sys.stdin.buffer, kept)
        kept.seek(0)
        yield kept


def check_lines(lines: Iterable[bytes], name: str) -> None:
    """Raises `ConfigurationError` for the first line that is no JSON object: a file of another kind most
    likely, of which nothing may be sent. Blank lines are passed over."""
    for number, line in enumerate(lines, 1):
        if not line.isspace() and not isinstance(_value(line), dict):
            raise ConfigurationError(
                f"Line {number} of {name} is no JSON object, and nothing was sent: give JSON lines, one "
                "object a line."
            )


def _keyed(lines: Iterable[bytes]) -> Iterator[tuple[str | None, bytes]]:
    """Lines with their record ids as keys."""
    for line in lines:
        if not line.isspace():
            yield _key(_value(line)), line.strip()


def _key(record: object) -> str | None:
    found = (record.get(key) for key in _ID_KEYS) if isinstance(record, dict) else ()
    return next((str(each) for each in found if isinstance(each, str | int)), None)


def _value(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _topic_of_plan(settings: Settings, place: int) -> str:
    places = find_up(settings.project)
    plan = None if places is None else read_plan(places)
    if plan is None:
        raise ConfigurationError("Name the topic: --topic NAME; or start one with `assay up PIPELINE.py`.")
    return plan.topics[place]


def _connection(settings: Settings, brokers: str | None) -> Connection:
    """The brokers that are named, or the embedded one that runs here."""
    if brokers is None and not settings.environment.get(BROKERS):
        port = EmbeddedBroker(settings.project).status().port
        if port is None:
            raise ConfigurationError(
                "No broker runs here: `assay up PIPELINE.py` starts one; or name yours, --brokers HOST:PORT "
                f"or {BROKERS}."
            )
        return Connection(f"127.0.0.1:{port}")
    return connection_of(settings.environment, brokers)
