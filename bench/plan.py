"""What a run of the bench was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.server import Server


@dataclass(frozen=True, slots=True)
class Plan:
    """`quick` measures less of everything; `long` adds the legs that take many minutes.

    A measurement of which others took more than 5 % of the machine is repeated, up to `tries` times in all.
    """

    quick: bool
    long: bool
    runs: int
    tries: int
    folder: Path
    work: Path
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Stand:
    """A plan and the server that it is measured on."""

    plan: Plan
    server: Server
