"""The breaker of the account as one worker knows it, and its turn to probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from assay.domain.breaker import Breaker, BreakerRules, BreakerState, CallEnd, Failure, FailureWatch

# A probe that finds nothing to call is given up, and this worker lets others try first.
_IDLE_SECONDS: Final = 5.0
_OTHERS_FIRST_SECONDS: Final = 30.0


class Gate:
    """Moves the breaker at once where this worker sees why; `send` tells the account, `moved` the flow.

    `moved(what, why)` is called after the breaker has opened or closed, here or elsewhere.
    """

    def __init__(
        self,
        rules: BreakerRules,
        name: str,
        *,
        send: Callable[[str, Failure | None], None],
        moved: Callable[[str, str | None], None],
    ) -> None:
        self._rules = rules
        self._name = name
        self._send, self._moved = send, moved
        self._watch = FailureWatch(rules)
        self._breaker = Breaker()
        self._probing = self._out = False
        self._since = self._not_before = float("-inf")
        self.closed = True
        self.succeeded = self._watch.succeeded

    def seconds_until_probe(self, now: float) -> float:
        """Until somebody may try whether the vendor is back; 0 while it answers."""
        if self.closed or self._breaker.until is None:
            return 0.0
        return max(self._breaker.until - now, 0.0)

    @property
    def has_probe(self) -> bool:
        """Whether this worker has the probe and has not sent it."""
        return self._probing and not self._out

    def take_probe(self) -> bool:
        """The one call that may go out while the breaker is not closed."""
        if not self.has_probe:
            return False
        self._out = True
        return True

    def wants_probe(self, now: float) -> bool:
        """Whether to ask the account for the probe; gives up one that found nothing to call."""
        if self.has_probe and now - self._since >= _IDLE_SECONDS:
            self.probe_unused(now)
        return not self._probing and now >= self._not_before and self._breaker.may_probe(now)

    def failed(self, now: float, failure: Failure) -> None:
        """A call failed in a way that says that the vendor may be down."""
        if self.closed and self._watch.failed(now):
            self._become(self._breaker.trip(now, self._rules, failure), "open_breaker", failure)

    def probe_ended(self, now: float, end: CallEnd, failure: Failure) -> None:
        """Whatever the vendor answers, it is back."""
        self._probing = self._out = False
        if end in ("transient", "overloaded"):
            again = self._breaker.probe_failed(now, self._rules, self._name, failure)
            self._become(again, "probe_failed", failure)
        else:
            self._become(self._breaker.probe_succeeded(now, self._name), "probe_succeeded", None)

    def probe_unused(self, now: float) -> None:
        """There was nothing to call."""
        self._probing = self._out = False
        self._not_before = now + _OTHERS_FIRST_SECONDS
        self._become(self._breaker.probe_unused(now, self._name), "probe_unused", None)

    def adopt(self, breaker: Breaker, now: float) -> None:
        """What the account says."""
        mine = breaker.state is BreakerState.HALF_OPEN and breaker.prober == self._name
        if mine and not self._probing:
            self._since = now
        self._probing = mine
        self._out = self._out and mine
        self._become(breaker, None, None)

    def _become(self, breaker: Breaker, move: str | None, failure: Failure | None) -> None:
        before, self._breaker = self._breaker, breaker
        self.closed = breaker.state is BreakerState.CLOSED
        if move is not None and breaker is not before:
            self._send(move, failure)
        opened = breaker.state is BreakerState.OPEN and before.state is not BreakerState.OPEN
        if opened and move != "probe_unused":
            self._watch.reset()
            self._moved("breaker_opened", breaker.reason)
        elif self.closed and before.state is not BreakerState.CLOSED:
            self._watch.reset()
            self._moved("breaker_closed", before.reason)
