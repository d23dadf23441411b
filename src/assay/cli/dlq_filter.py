"""The filters that all commands of `assay dlq` share, as options, and what they say as a filter."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any, Final

import typer

from assay.domain.dead_letters import WAITING, LetterFilter, LetterState
from assay.domain.failures import ConfigurationError

_AGE: Final = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Which(StrEnum):
    """Which states are meant; `waiting`: open, assigned and replaying."""

    WAITING = "waiting"
    OPEN = "open"
    ASSIGNED = "assigned"
    REPLAYING = "replaying"
    RESOLVED = "resolved"
    CLOSED = "closed"
    ANY = "any"


def _only(name: str, metavar: str, told: str) -> Any:
    return Annotated[str | None, typer.Option(name, metavar=metavar, help=told)]


_AGES: Final = "90s, 15m, 6h, 2d, or a time"
_OPTIONS: Final[Mapping[str, tuple[Any, object]]] = {
    "pipeline": (_only("--pipeline", "NAME", "Only this pipeline."), None),
    "version": (_only("--version", "REFERENCE", "Only this version: a label, or a digest."), None),
    "code": (_only("--code", "CODE", "Only this code."), None),
    "failure_class": (_only("--class", "CLASS", "Only this class, such as contract."), None),
    "kind": (_only("--kind", "KIND", "Only this kind: malformed, incomplete, semantic."), None),
    "field": (_only("--field", "PATH", "Only with an error there: a JSON Pointer, * for any item."), None),
    "source": (_only("--source", "NAME", "Only from this file or topic."), None),
    "customer": (_only("--customer", "NAME", "Only of this customer."), None),
    "document_type": (_only("--document-type", "TYPE", "Only of this type of document."), None),
    "language": (_only("--language", "CODE", "Only in this language."), None),
    "record_id": (_only("--record", "ID", "Only of this record."), None),
    "owned_by": (_only("--owned-by", "NAME", "Only what this person has."), None),
    "fingerprint": (_only("--fingerprint", "HEX", "Only what failed in this way."), None),
    "since": (_only("--since", "AGE|TIME", f"Only last tried since: {_AGES}."), None),
    "until": (_only("--until", "AGE|TIME", f"Only last tried before: {_AGES}."), None),
    "overdue": (
        Annotated[bool, typer.Option("--overdue", help="Only what waits beyond its due time.")],
        False,
    ),
    "state": (Annotated[Which, typer.Option("--state", help="Which states.")], Which.WAITING),
}  # fmt: skip


def filtered(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the filters as options before its own; it gets them as its argument `which`."""
    own = inspect.signature(command, eval_str=True)
    kept = [each for name, each in own.parameters.items() if name != "which"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option)
        for name, (option, default) in _OPTIONS.items()
    ]
    positional = [each for each in kept if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    options = [each for each in kept if each.kind is inspect.Parameter.KEYWORD_ONLY]

    @wraps(command)
    def run(*args: object, **given: object) -> None:
        filters = {name: given.pop(name) for name in _OPTIONS}
        command(*args, which=letter_filter(filters), **given)

    parameters = [*positional, *added, *options]
    run.__dict__["__signature__"] = own.replace(parameters=parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def letter_filter(given: Mapping[str, object]) -> LetterFilter:
    """The filter that the options name. Raises `ConfigurationError` for a time that is none."""
    texts = {name: None if given[name] is None else str(given[name]) for name in _OPTIONS}
    return LetterFilter(
        states=_states(Which(str(given["state"]))), pipeline=texts["pipeline"], version=texts["version"],
        code=texts["code"], failure_class=texts["failure_class"], kind=texts["kind"], field=texts["field"],
        source=texts["source"], customer=texts["customer"], document_type=texts["document_type"],
        language=texts["language"], owner=texts["owned_by"], fingerprint=texts["fingerprint"],
        record_id=texts["record_id"], since=_moment("--since", texts["since"]),
        until=_moment("--until", texts["until"]), overdue=given["overdue"] is True,
    )  # fmt: skip


def seconds(option: str, text: str) -> float:
    """A length of time such as `7d`. Raises `ConfigurationError` for another text."""
    found = _AGE.fullmatch(text)
    if found is None:
        raise ConfigurationError(f"{option} is a number with s, m, h or d: 90s, 15m, 6h, 2d.")
    return float(int(found[1]) * _UNITS[found[2]])


def _states(which: Which) -> tuple[LetterState, ...] | None:
    match which:
        case Which.ANY:
            return None
        case Which.WAITING:
            return WAITING
    return (LetterState(which.value),)


def _moment(option: str, text: str | None) -> datetime | float | None:
    if text is None:
        return None
    if _AGE.fullmatch(text):
        return seconds(option, text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{option} is an age (90s, 15m, 6h, 2d) or a time (2026-01-31, 2026-01-31T09:30)."
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
