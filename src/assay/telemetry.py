"""What assay says while it runs: every event and every field in one table, and `tell` to say it.

A line carries location and replay metadata only: no record text, no answer, no label value, no key, no
message of an exception. What the table does not name is not said: with ASSAY_LOG_STRICT=1 (tests) it is an
error, else it is left out and counted in the line's `dropped` field. Lines go to the logger `assay` of the
standard library; `assay.cli.logging_setup` renders them.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias
from uuid import UUID

Value: TypeAlias = str | int | float | bool
Given: TypeAlias = str | int | float | bool | Decimal | UUID | StrEnum | None


class Kind(StrEnum):
    """What a field may hold."""

    CODE = "code"  # a word of ours or of a closed list: letters, digits, `_ . : -`, at most 80
    NAME = "name"  # an identifier of the user's (record, source, model): one line, cut at 200 characters
    COUNT = "count"  # a whole number
    NUMBER = "number"
    PLACE = "place"  # file, line and function of an exception
    SENTENCE = "sentence"  # what a command tells a person: one line, cut at 1,000 characters


# name: (kind, meaning). The order is the order in which a line shows them.
FIELDS: Final[dict[str, tuple[Kind, str]]] = {
    "worker": (Kind.NAME, "who speaks: host, process and a random part; `actor` of the task's history"),
    "run_id": (Kind.CODE, "one run of one command"),
    "pipeline": (Kind.NAME, "name of the line"),
    "pipeline_version": (Kind.CODE, "first 12 digits of the version's digest"),
    "source": (Kind.NAME, "name of the source"),
    "partition": (Kind.COUNT, "partition of the source; 0 for a file"),
    "offset": (Kind.COUNT, "position in the partition"),
    "line": (Kind.COUNT, "line or row of the file, from 1"),
    "record_id": (Kind.NAME, "the record"),
    "input_version": (Kind.COUNT, "version of the record's content"),
    "task_id": (Kind.COUNT, "the annotation"),
    "attempt_id": (Kind.CODE, "the lease that was held"),
    "pass_number": (Kind.COUNT, "1: first pass, 2: correction"),
    "code": (Kind.CODE, "failure or rejection code"),
    "reason": (Kind.CODE, "why, as a word of a closed list"),
    "http_status": (Kind.COUNT, "status of the provider's reply"),
    "error_type": (Kind.CODE, "type of the exception or of what is malformed"),
    "error_at": (Kind.PLACE, "where the exception was raised"),
    "sqlstate": (Kind.CODE, "PostgreSQL's error code"),
    "account": (Kind.NAME, "the vendor account: an address, never a key"),
    "model": (Kind.NAME, "the model that was asked for"),
    "model_answered": (Kind.NAME, "the model that the vendor says it used"),
    "limit_kind": (Kind.CODE, "requests or tokens"),
    "limit": (Kind.NUMBER, "how many of them"),
    "seconds": (Kind.NUMBER, "how long, or per how long"),
    "concurrency": (Kind.COUNT, "calls allowed at once"),
    "in_flight": (Kind.COUNT, "calls that are waited for"),
    "held": (Kind.COUNT, "tasks whose lease this worker holds"),
    "count": (Kind.COUNT, "how many"),
    "total": (Kind.COUNT, "records of the source, where known"),
    "read": (Kind.COUNT, "records read"),
    "settled": (Kind.COUNT, "records settled in this run, and what it isolated; parked ones are neither"),
    "done": (Kind.COUNT, "records of the source that need nothing more, earlier runs counted in"),
    "accepted": (Kind.COUNT, "records that became `auto_candidate` in this run"),
    "review": (Kind.COUNT, "records that became `review_pending` in this run"),
    "dead": (Kind.COUNT, "records that became `quarantined` in this run"),
    "parked": (Kind.COUNT, "records of the version that wait for another try, or are at one"),
    "calls": (Kind.COUNT, "calls made"),
    "cost": (Kind.NUMBER, "money, in the price list's currency"),
    "cap": (Kind.NUMBER, "the most that may be spent"),
    "scope": (Kind.CODE, "what a cap is for: run, pipeline or day"),
    "kek_id": (Kind.CODE, "id of a vault key; tells nothing about the key"),
    "sink": (Kind.NAME, "where events go: `kafka:topic`, `webhook:host`, `jsonl:file`"),
    "event_id": (Kind.CODE, "the event, as consumers know it"),
    "event_kind": (Kind.CODE, "what the event tells: completed, superseded, …"),
    "published": (Kind.COUNT, "events that were delivered and have their receipt, in this run"),
    "backlog": (Kind.COUNT, "events in the outbox"),
    "oldest_seconds": (Kind.NUMBER, "age of the oldest event in the outbox"),
    "blocked": (Kind.COUNT, "aggregates that a refused event holds back"),
    "buckets": (Kind.COUNT, "buckets of the outbox that this publisher holds, of 64"),
    "library": (Kind.CODE, "logger of a library; its text is not shown"),
    "sentence": (Kind.SENTENCE, "what a terminal shows after `assay:`"),
    "exit_code": (Kind.COUNT, "what the command ended with"),
    "dropped": (Kind.COUNT, "fields left out because no table names them or their value does not fit"),
}

# Known from `bound`, on every line while it lasts.
CONTEXT: Final = ("worker", "run_id", "pipeline", "pipeline_version")
_RECORD: Final = ("source", "partition", "offset", "line", "record_id", "input_version")
_ATTEMPT: Final = (*_RECORD, "task_id", "attempt_id")
_ERROR: Final = ("error_type", "error_at", "sqlstate")


@dataclass(frozen=True, slots=True)
class Event:
    """An event: its level, its fields beside the context's, and its meaning in one sentence."""

    level: int
    fields: tuple[str, ...]
    meaning: str


_INFO, _WARNING, _ERROR_LEVEL = logging.INFO, logging.WARNING, logging.ERROR

EVENTS: Final[dict[str, Event]] = {
    "run_started": Event(
        _INFO, ("source", "offset", "total", "model", "concurrency"), "A run reads from this offset on."
    ),
    "run_ended": Event(
        _INFO, ("reason", "code", "read", "settled", "calls", "cost", "seconds"),
        "A run ended: `done`, `drained`, `stopped` or `failed`.",
    ),
    "run_progress": Event(
        _INFO,
        ("total", "done", "accepted", "review", "dead", "parked", "in_flight", "calls", "cost"),
        "How far a run is, every five seconds; not with `--quiet` or `--json`.",
    ),
    "drain_started": Event(
        _INFO, ("in_flight", "held"), "A stop was asked for: nothing new is taken, calls in flight finish."
    ),
    "partition_assigned": Event(
        _INFO, ("source", "partition", "offset", "reason"),
        "A partition is read from this offset on; the reason says whose position that is.",
    ),
    "partition_revoked": Event(
        _INFO, ("source", "partition"), "A partition goes to another member of the group."
    ),
    "partition_lost": Event(
        _WARNING, ("source", "partition"), "A partition is somebody else's by now; nothing is committed."
    ),
    "partitions_not_settled": Event(
        _WARNING, ("source", "count", "seconds"),
        "Partitions were taken away and the database did not answer: nothing of them was committed.",
    ),
    "records_expired": Event(
        _ERROR_LEVEL, ("source", "partition", "offset", "count"),
        "The broker has deleted offsets that were never read: so many before the one where reading goes on.",
    ),
    "offset_commit_failed": Event(
        _WARNING, ("source", "code"), "The broker did not take a commit; it is sent again."
    ),
    "broker_away": Event(_WARNING, ("source", "code"), "No broker answers; it is tried again."),
    "group_not_left": Event(
        _WARNING, ("source", "seconds"), "The broker did not let the member go in time; its session will end."
    ),
    "records_isolated": Event(
        _WARNING, ("source", "partition", "offset", "line", "code", "error_type", "count"),
        "Pieces of the source that are no record are in the vault; the first one's place and the number.",
    ),
    "low_priority_paused": Event(
        _INFO, ("count",), "Records of low priority wait from here on; so many tasks wait already."
    ),
    "low_priority_resumed": Event(_INFO, (), "Records of low priority are worked on again."),
    "input_conflict": Event(
        _ERROR_LEVEL, (*_RECORD, "code"), "An identity came with other content: isolated, not overwritten."
    ),
    "lease_lost": Event(
        _WARNING, _ATTEMPT, "Somebody took the task over; the cost is kept, nothing else is written."
    ),
    "lease_renewal_failed": Event(
        _WARNING, ("held", *_ERROR), "Leases could not be renewed this time; it is tried again at once."
    ),
    "throttled": Event(
        _WARNING, ("account", "code", "http_status", "seconds", "concurrency"),
        "The vendor asked for less: fewer calls at once, none for so many seconds.",
    ),
    "account_unreachable": Event(
        _WARNING, ("account", "seconds", *_ERROR),
        "The account's shared state cannot be read or told; calls go on with the permits that are left.",
    ),
    "limit_learned": Event(
        _INFO, ("account", "limit_kind", "limit", "seconds"), "What the vendor's headers say it allows."
    ),
    "model_changed": Event(
        _ERROR_LEVEL, ("account", "model", "model_answered"), "The vendor answers with another model."
    ),
    "breaker_opened": Event(
        _WARNING, ("account", "code", "seconds", "count"), "The vendor is down: no call before a probe."
    ),
    "breaker_half_open": Event(_INFO, ("account",), "One call goes out to see whether the vendor is back."),
    "breaker_closed": Event(
        _INFO, ("account", "code", "seconds"), "The vendor is back; it was gone so long, and why."
    ),
    "spend_cap_reached": Event(
        _ERROR_LEVEL, ("scope", "cap", "cost"), "No call is made until the cap is raised; records wait."
    ),
    "call_over_reserve": Event(
        _WARNING, ("count", "cost"), "So many calls cost so much more than was reserved for them."
    ),
    "version_stopped": Event(
        _ERROR_LEVEL, ("code", "http_status", "reason"),
        "A configuration failure stopped this pipeline version; no record is burnt.",
    ),
    "version_resumed": Event(_INFO, ("reason",), "A stopped pipeline version works again."),
    "provider_adapter_error": Event(
        _ERROR_LEVEL, (*_ATTEMPT, "pass_number", *_ERROR), "A defect of an adapter; the record waits."
    ),
    "unexpected_parse_error": Event(
        _ERROR_LEVEL, (*_ATTEMPT, "pass_number", "code"), "A defect of a rule or of assay; a dead letter."
    ),
    "label_unstorable": Event(
        _ERROR_LEVEL, (*_ATTEMPT, *_ERROR), "A label that PostgreSQL cannot store: a defect; a dead letter."
    ),
    "database_unavailable": Event(
        _WARNING, ("seconds", *_ERROR), "PostgreSQL gives no answer: reading pauses, nothing is lost."
    ),
    "database_back": Event(_INFO, ("seconds",), "PostgreSQL answers again; it was gone so long."),
    "vault_key_changed": Event(_INFO, ("kek_id",), "From here on records are sealed under this key."),
    "vault_key_missing": Event(
        _ERROR_LEVEL, ("kek_id",), "The vault's key was rotated and this process has no copy of the new one."
    ),
    "key_rotation_started": Event(_INFO, ("kek_id", "count"), "Keys are rewrapped under this vault key."),
    "key_rotation_ended": Event(
        _INFO, ("kek_id", "count", "seconds"), "No row is wrapped under another vault key."
    ),
    "publish_started": Event(_INFO, ("sink",), "Events leave the outbox for this sink."),
    "publish_ended": Event(
        _INFO, ("sink", "reason", "published", "backlog", "blocked", "seconds"),
        "A publisher ended: `done`, `drained` or `failed`; its buckets are free.",
    ),
    "publish_progress": Event(
        _INFO, ("published", "backlog", "oldest_seconds", "blocked", "buckets"),
        "How far a publisher is, every five seconds; not with `--quiet` or `--json`.",
    ),
    "sink_unavailable": Event(
        _WARNING, ("sink", "reason", "seconds"), "The sink does not answer; tried again in so many seconds."
    ),
    "sink_back": Event(_INFO, ("sink", "seconds"), "The sink answers again; it was gone so long."),
    "event_file_mended": Event(
        _WARNING, ("sink", "count"), "So many bytes of a line that a crash left unfinished were cut off."
    ),
    "event_refused": Event(
        _ERROR_LEVEL, ("sink", "event_id", "event_kind", "reason", "count", "seconds"),
        "The sink refuses this event, for the so-manieth time: its aggregate waits, all others go on.",
    ),
    "buckets_lost": Event(
        _WARNING, ("count",),
        "Another publisher took over buckets while events were on their way: they go out twice.",
    ),
    "notice": Event(_INFO, ("sentence",), "What a command tells a person; only with `ASSAY_LOG=json`."),
    "refusal": Event(
        _ERROR_LEVEL, ("sentence", "exit_code"),
        "What was wrong and what to do about it; only with `ASSAY_LOG=json`.",
    ),
    "command_failed": Event(_ERROR_LEVEL, _ERROR, "A defect of assay ended the command."),
    "library_message": Event(
        _WARNING, ("library", *_ERROR), "A library spoke; its text may hold values, so it is left out."
    ),
    "undeclared_event": Event(
        _WARNING, ("count",), "A line that the table does not name was left out; how many so far."
    ),
}  # fmt: skip

LOGGER: Final = "assay"
STRICT: Final = "ASSAY_LOG_STRICT"
# Attribute of a `logging.LogRecord` that holds the fields.
ATTRIBUTE: Final = "assay_fields"

_log: Final = logging.getLogger(LOGGER)
_CODE: Final = re.compile(r"[A-Za-z0-9_.:<>\-]{1,80}", re.ASCII)
_MAX_NAME: Final = 200
_MAX_SENTENCE: Final = 1_000
_undeclared: Final = itertools.count(1)
_here: ContextVar[Mapping[str, Value] | None] = ContextVar("assay_log_context", default=None)
_everywhere: list[Mapping[str, Value]] = [{}]


class Undeclared(ValueError):
    """A line that the table does not allow; raised where ASSAY_LOG_STRICT=1, in tests."""


def tell(event: str, *, error: BaseException | None = None, **fields: Given) -> None:
    """Say that something happened. `error` is told by type and place alone. None leaves a field out."""
    known = EVENTS.get(event)
    if known is None:
        _refuse(f"{event} is no event of assay.telemetry")
        event, known, fields = "undeclared_event", EVENTS["undeclared_event"], {"count": next(_undeclared)}
    enabled = _log.isEnabledFor(known.level)
    if not enabled and not _strict():
        return
    given = {name: value for name, value in fields.items() if value is not None}
    if error is not None:
        given.update(_of_error(error))
    line = dict(_here.get() or _everywhere[-1]) | _allowed(event, known.fields, given)
    if enabled:
        _log.log(known.level, event, extra={ATTRIBUTE: line})


@contextmanager
def bound(**fields: Given) -> Iterator[None]:
    """Put fields of `CONTEXT` on every line while the block lasts, those of other threads included."""
    line = _allowed("bound", CONTEXT, {name: value for name, value in fields.items() if value is not None})
    token = _here.set(line)
    _everywhere.append(line)
    try:
        yield
    finally:
        _everywhere.remove(line)
        _here.reset(token)


def place_of(error: BaseException) -> str | None:
    """File, line and function of the innermost frame that is assay's own, else of the innermost one."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return None
    package = str(Path(__file__).parent)
    frame = next((each for each in reversed(frames) if each.filename.startswith(package)), frames[-1])
    path = Path(frame.filename)
    shown = path.relative_to(Path(package).parent) if frame.filename.startswith(package) else Path(path.name)
    return f"{shown.as_posix()}:{frame.lineno} {frame.name}"


def _of_error(error: BaseException) -> dict[str, str]:
    sqlstate = getattr(error, "sqlstate", None)
    told = {"error_type": type(error).__qualname__}
    if (place := place_of(error)) is not None:
        told["error_at"] = place
    if isinstance(sqlstate, str):
        told["sqlstate"] = sqlstate
    return told


def _allowed(event: str, names: tuple[str, ...], given: Mapping[str, Given]) -> dict[str, Value]:
    line: dict[str, Value] = {}
    dropped = 0
    for name in FIELDS:  # in the order of the table
        if name not in given:
            continue
        value = _fitting(FIELDS[name][0], given[name]) if name in names else None
        if value is None:
            dropped += 1
        else:
            line[name] = value
    dropped += sum(name not in FIELDS for name in given)
    if dropped:
        _refuse(
            f"{event}: a field that its table does not name, or a value that does not fit: {sorted(given)}"
        )
        line["dropped"] = dropped
    return line


def _fitting(kind: Kind, given: Given) -> Value | None:
    """The value as it may be written; None where it does not fit its field."""
    match kind:
        case Kind.COUNT:
            return given if isinstance(given, int) and not isinstance(given, bool) else None
        case Kind.NUMBER:
            if isinstance(given, bool) or not isinstance(given, int | float | Decimal):
                return None
            return given if isinstance(given, int) else round(float(given), 6)
        case Kind.CODE:
            text = str(given)
            return text if isinstance(given, str | UUID) and _CODE.fullmatch(text) else None
        case Kind.NAME | Kind.PLACE:
            return _one_line(given, _MAX_NAME) if isinstance(given, str) else None
        case Kind.SENTENCE:
            return _one_line(" ".join(given.split()), _MAX_SENTENCE) if isinstance(given, str) else None


def _one_line(text: str, most: int) -> str:
    """Printable and short: a name never starts a new line, moves a cursor or floods a log."""
    shown = "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text[:most])
    return shown if len(text) <= most else f"{shown}…"


def _strict() -> bool:
    return os.environ.get(STRICT) == "1"


def _refuse(told: str) -> None:
    if _strict():
        raise Undeclared(told)
