"""What the supervisors of database and broker do alike: watch a server until it ends or nobody uses it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final, Protocol

from assay.adapters.embedded.locks import FileLock, held_at_all
from assay.adapters.embedded.log import bound
from assay.adapters.embedded.state import Places
from assay.adapters.embedded.watch import StopAsked, Watch

_LONGEST_TICK: Final = 0.5
_RESTARTS, _WITHIN_SECONDS = 3, 60.0


class Living(Protocol):
    """A server that was brought up."""

    def lives(self) -> bool: ...


@dataclass(slots=True)
class Restarts:
    """Counts how often a server had to be brought up again lately."""

    _times: list[float] = field(default_factory=list)

    def one_more(self) -> str:
        """Count another; why there may be none, in words, and empty where there may."""
        now = time.monotonic()
        self._times = [then for then in self._times if now - then < _WITHIN_SECONDS]
        if len(self._times) == _RESTARTS:
            return f"it ended {_RESTARTS + 1} times within {_WITHIN_SECONDS:.0f} seconds"
        self._times.append(now)
        return ""


def until_it_ends(server: Living, places: Places, watch: Watch, *, idle_grace: float, log_bytes: int) -> None:
    """Return when the server ended by itself; StopAsked when it is to, or nobody has used it for `idle_grace`
    seconds. Its log is kept under `log_bytes`."""
    tick = min(_LONGEST_TICK, max(idle_grace / 4, 0.02))
    used = time.monotonic()
    while server.lives():
        watch.tick(tick)
        bound(places.log, log_bytes)
        if held_at_all(places.clients_lock):
            used = time.monotonic()
        elif time.monotonic() - used >= idle_grace and _nobody_comes(places):
            raise StopAsked


def _nobody_comes(places: Places) -> bool:
    """Take the start lock and keep it until we exit, so that who arrives now waits for our end."""
    lock = FileLock(places.start_lock)
    if not lock.try_acquire():
        return False
    if held_at_all(places.clients_lock):
        lock.release()
        return False
    return True
