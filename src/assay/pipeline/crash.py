"""Named points at which a process can be killed on purpose, to prove that nothing depends on luck.

`ASSAY_CRASH=after_call` kills this process (SIGKILL) when it first passes the point of that name,
`ASSAY_CRASH=after_call:3` at the third time. Without the variable a point costs one comparison.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

from assay.domain.failures import ConfigurationError

WORKER_POINTS: Final = (
    "before_claim",
    "in_claim",
    "after_claim",
    "before_call",
    "after_call",
    "before_first_pass_note",
    "after_first_pass_note",
    "before_finish",
    "in_finish",
    "after_finish",
    "before_commit_offset",
    "after_commit_offset",
    "before_isolation",
    "after_isolation",
    "before_renewal",
    "while_draining",
)
PUBLISHER_POINTS: Final = ("before_publish", "after_send", "before_receipt", "after_receipt")
CRASH_POINTS: Final = WORKER_POINTS + PUBLISHER_POINTS


class CrashPoints:
    """Counts passes of the one point that is armed."""

    def __init__(self, setting: str | None) -> None:
        name, _, count = (setting or "").partition(":")
        if name and name not in CRASH_POINTS:
            raise ConfigurationError(
                f"ASSAY_CRASH names no crash point: {name!r}; known are {', '.join(CRASH_POINTS)}."
            )
        if count and not (count.isascii() and count.isdigit() and int(count) > 0):
            raise ConfigurationError("ASSAY_CRASH counts from 1, as in ASSAY_CRASH=after_call:3.")
        self._armed = name
        self._left = int(count) if count else 1
        self._lock = threading.Lock()

    def __call__(self, name: str) -> None:
        """Pass the point `name`; dies here when it is armed and its count is reached."""
        if name != self._armed:
            return
        with self._lock:
            self._left -= 1
            if self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)


def from_environment() -> CrashPoints:
    """The points as the environment arms them."""
    return CrashPoints(os.environ.get("ASSAY_CRASH"))
