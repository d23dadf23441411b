"""What `assay lag` does once its options are read."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import psycopg
import typer

from assay.adapters.embedded.broker import EmbeddedBroker
from assay.adapters.kafka.security import BROKERS, Connection, connection_of
from assay.adapters.pipeline_file import load_pipeline
from assay.cli.chosen import is_file
from assay.cli.errors import BROKEN, OK, sentence
from assay.cli.json_text import to_json
from assay.cli.kafka_extra import require_kafka
from assay.cli.lag_page import as_object, show
from assay.cli.opened import existing_database
from assay.cli.said import complain
from assay.cli.tables import console
from assay.config import Settings, load_settings
from assay.domain.failures import AssayError, ConfigurationError
from assay.domain.lag import Lag

_AGE: Final = re.compile(r"(\d{1,6})([smhd])")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
# Home, and forget what is below and above.
_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"


@dataclass(frozen=True, slots=True)
class LagOptions:
    """The options of `assay lag`, read. No topics: all that the pipeline has read."""

    pipeline: str
    topics: tuple[str, ...] = ()
    brokers: str | None = None
    group: str | None = None
    fail_over: int | None = None
    older_than: str | None = None
    watch: float | None = None
    as_json: bool = False


def execute(options: LagOptions) -> int:
    """Show it; the exit code. Raises `ConfigurationError` for what cannot be told."""
    require_kafka()
    oldest = age_seconds(options.older_than)
    if options.watch is not None and (options.fail_over is not None or oldest is not None):
        raise ConfigurationError("--fail-over and --older-than judge one look; leave --watch out.")
    settings = load_settings()
    name = load_pipeline(options.pipeline).name if is_file(options.pipeline) else options.pipeline
    if options.watch is not None:
        return _watch(settings, options, name, options.watch)
    found = _look(settings, options, name)
    passed = found.exceeded(options.fail_over, oldest)
    if options.as_json:
        typer.echo(to_json(as_object(found, passed)))
    else:
        show(console(), found)
    for each in passed:
        complain(each, BROKEN)
    return BROKEN if passed else OK


def age_seconds(age: str | None) -> float | None:
    """An age in seconds. Raises `ConfigurationError` for what is none."""
    if age is None:
        return None
    found = _AGE.fullmatch(age)
    if found is None:
        raise ConfigurationError("--older-than is a number with s, m, h or d: 90s, 15m, 6h, 2d.")
    return float(found[1]) * _UNITS[found[2]]


def _look(settings: Settings, options: LagOptions, name: str) -> Lag:
    from assay.cli.lag_reading import read_lag

    connection = _connection(settings, options.brokers)
    with _told(), existing_database(settings) as url:
        group = options.group or f"assay-{name}"
        return read_lag(
            url, connection, name, group, options.topics, ages=options.older_than is not None
        )  # fmt: skip


@contextmanager
def _told() -> Iterator[None]:
    """A database that is away is not a limit that is passed: it has the code of what cannot be told."""
    try:
        yield
    except psycopg.OperationalError as error:
        raise ConfigurationError(sentence(error) or "PostgreSQL does not answer.") from None


def _watch(settings: Settings, options: LagOptions, name: str, seconds: float) -> int:
    """Again and again until Ctrl-C, also while brokers or database are away."""
    screen = console()
    try:
        while True:
            try:
                found = _look(settings, options, name)
            except AssayError as error:
                complain(str(error))
            else:
                if options.as_json:
                    typer.echo(to_json(as_object(found, [])))
                else:
                    typer.echo(_CLEAR if screen.is_terminal else "", nl=False)
                    show(screen, found)
            time.sleep(seconds)
    except KeyboardInterrupt:
        return OK


def _connection(settings: Settings, brokers: str | None) -> Connection:
    """The brokers that are named, or the embedded one that runs here."""
    if brokers is not None or settings.environment.get(BROKERS):
        return connection_of(settings.environment, brokers)
    port = EmbeddedBroker(settings.project).status().port
    if port is None:
        raise ConfigurationError(
            f"No broker runs here; name yours, --brokers HOST:PORT or {BROKERS}, or start one: "
            "`assay up PIPELINE.py`."
        )
    return Connection(f"127.0.0.1:{port}")
