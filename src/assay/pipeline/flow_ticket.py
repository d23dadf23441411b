"""The right to make one call, and the refusal of it."""

from __future__ import annotations

from asyncio import Future
from dataclasses import dataclass


class BreakerOpen(Exception):
    """The vendor is not answering anybody: no call goes out. Neither an attempt nor age is used up.

    `seconds`: until the next probe may show that it is back.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__("breaker_open")
        self.seconds = seconds


class Ticket:
    """One call that may be made, until it is settled or given back. `sent_at` is on the flow's clock.

    `size`: the caller's own idea of its tokens, `tokens`: what it was admitted for.
    """

    __slots__ = ("paced", "probe", "retry", "sent_at", "size", "tokens")

    def __init__(self, sent_at: float, size: int, retry: bool) -> None:
        self.sent_at = sent_at
        self.size = size
        self.retry = retry
        self.tokens = 0.0
        self.paced = False
        self.probe = False


FREE = Ticket(0.0, 0, False)
"""What a flow without an account hands out: nothing to count, nothing to settle."""


@dataclass(eq=False, slots=True)
class Waiter:
    """An attempt that waits for its ticket."""

    ticket: Future[Ticket]
    size: int
    retry: bool
