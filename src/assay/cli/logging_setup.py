"""Log lines on standard error: words for a terminal, one JSON object a line for everything else.

ASSAY_LOG=human or json chooses; ASSAY_LOG_LEVEL names the lowest level (default: info for JSON, warning for
people, who have the progress bar). Only what `assay.telemetry` declares is rendered. A library's own records
keep their logger's name, level, type of exception and its place; their text may hold values and is left out.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TextIO

from assay.domain.failures import ConfigurationError
from assay.telemetry import ATTRIBUTE, EVENTS, LOGGER, place_of

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
FORMS: Final = ("human", "json")


def set_up_logging(environment: Mapping[str, str] | None = None) -> None:
    """Install the one handler. Called once per process, before anything speaks; again replaces it.

    Raises `ConfigurationError` for an unknown form or level.
    """
    env = os.environ if environment is None else environment
    form = _choice(env, "ASSAY_LOG", FORMS, default="human" if sys.stderr.isatty() else "json")
    as_json = form == "json"
    level = _choice(env, "ASSAY_LOG_LEVEL", LEVELS, default="info" if as_json else "warning")
    root = logging.getLogger()
    root.handlers[:] = [_StderrHandler(as_json)]
    root.setLevel(logging.WARNING)  # libraries are heard when something is wrong
    logging.getLogger(LOGGER).setLevel(level.upper())


def json_lines() -> bool:
    """Whether log lines are JSON."""
    return any(isinstance(each, _StderrHandler) and each.json_lines for each in logging.getLogger().handlers)


def only_json() -> bool:
    """Whether somebody asked for JSON: then nothing but JSON is written to standard error."""
    return os.environ.get("ASSAY_LOG", "").strip().lower() == "json" and json_lines()


def _choice(env: Mapping[str, str], name: str, known: tuple[str, ...], *, default: str) -> str:
    chosen = env.get(name, "").strip().lower() or default
    if chosen not in known:
        raise ConfigurationError(f"{name} is one of {', '.join(known)}; correct or unset it.")
    return chosen


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what standard error is at that moment: a live progress bar takes its place for a while."""

    def __init__(self, json_lines: bool) -> None:
        super().__init__(sys.stderr)
        self.json_lines = json_lines

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        if (
            self.formatter is None
        ):  # made for the first line: most commands say nothing, and structlog is slow
            self.formatter = _formatter(self.json_lines)
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """A line that cannot be written is lost; the work goes on."""


def _formatter(json_lines: bool) -> logging.Formatter:
    import structlog

    render: Processor = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if json_lines
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty() and "NO_COLOR" not in os.environ, sort_keys=False, pad_event_to=0,
            timestamp_key="time",
        )
    )  # fmt: skip
    return structlog.stdlib.ProcessorFormatter(processors=[_declared, render])


def _declared(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
    """The line of a record: what the table allows, and nothing of what the record says otherwise."""
    record: logging.LogRecord = event["_record"]
    moment = datetime.fromtimestamp(record.created, UTC)
    head = {
        "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
    }
    fields = getattr(record, ATTRIBUTE, None)
    if record.name == LOGGER and isinstance(fields, dict) and record.msg in EVENTS:
        return {**head, "event": record.msg, **fields}
    return {**head, "event": "library_message", **_of_library(record, event.get("exc_info"))}


def _of_library(record: logging.LogRecord, exc_info: object) -> dict[str, str]:
    told = {"library": record.name}
    error = exc_info[1] if isinstance(exc_info, tuple) else exc_info
    if isinstance(error, BaseException):
        told["error_type"] = type(error).__qualname__
        if (place := place_of(error)) is not None:
            told["error_at"] = place
    return told
