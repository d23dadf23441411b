"""A finding of `assay doctor`: what was looked at, how it is, what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from assay.cli.errors import sentence
from assay.domain.failures import AssayError


class State(StrEnum):
    """How a thing is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """`told` says how it is; `todo` what to do about it, empty where nothing is."""

    what: str
    state: State
    told: str
    todo: str = ""


def fine(what: str, told: str) -> Finding:
    """Nothing to do."""
    return Finding(what, State.OK, told)


def doubt(what: str, told: str, todo: str) -> Finding:
    """It works, but look at it."""
    return Finding(what, State.WARN, told, todo)


def fault(what: str, told: str, todo: str = "") -> Finding:
    """It does not work."""
    return Finding(what, State.FAIL, told, todo)


def findings(what: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """What a look finds; an error of the outside world is a finding too, its sentence says what to do."""
    try:
        return list(look())
    except AssayError as error:
        return [fault(what, str(error))]
    except Exception as error:
        told = sentence(error)
        if told is None:
            raise
        return [fault(what, told)]
