"""The account's pace as one worker keeps it: its permits, its own rate, and what it asks for next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from assay.domain.account import AccountView, Booking
from assay.domain.pacing import Ask, Limits, Pacer, PaceRules
from assay.pipeline.flow_tokens import TokenEstimate

# Permits are asked for again when less than this many seconds of this worker's use are left.
_LEAD_SECONDS: Final = 0.25
_RATE_SECONDS: Final = 2.0
_LATENCY_WEIGHT: Final = 0.05
# Calls in flight that a rate needs, with something to spare.
_NEEDED: Final = 1.25


class Pace:
    """`on`: whether calls need a permit. `cut_at`: when the account's rate was last seen to be lowered."""

    def __init__(self, rules: PaceRules, now: float) -> None:
        self._rules = rules
        self._pacer = Pacer(rules)
        self._limits = Limits()
        self._booking: Booking | None = None
        self._cuts: int | None = None
        self._rated_at = self._asked_at = now
        self._admitted = 0
        self._own_rate = self._latency = 0.0
        self.estimate = TokenEstimate()
        self.on = False
        self.cut_at = float("-inf")
        self.hold = self._pacer.hold
        self.put_back = self._pacer.put_back

    def take(self, now: float, tokens: float) -> float | None:
        """As `Pacer.take`."""
        return self._pacer.take(now, tokens)

    def counted(self) -> None:
        """A call of this worker goes out."""
        self._admitted += 1

    def took(self, seconds: float) -> None:
        """How long a call was out."""
        self._latency += _LATENCY_WEIGHT * (seconds - self._latency)

    @property
    def needed(self) -> float:
        """Calls in flight that this worker's part of the pace takes."""
        return _NEEDED * self._own_rate * self._latency if self.on else 0.0

    def runs_low(self, now: float) -> bool:
        """Whether it is time to ask for permits."""
        return self._pacer.held(now) < max(1.0, self._own_rate * _LEAD_SECONDS)

    def calls_within(self, seconds: float) -> int:
        """Calls that the whole account may make in that time, one at least."""
        requests, tokens = self._limits.requests_per_minute, self._limits.tokens_per_minute
        per_minute = [requests] if requests is not None else []
        if tokens is not None:
            per_minute.append(tokens / max(self.estimate.mean, 1.0))
        return max(1, math.ceil(min(per_minute, default=0.0) / 60.0 * seconds))

    def ask(self, now: float, waiting: int, sizes: Sequence[int]) -> Ask:
        """What this worker will need for a chunk of time. `sizes`: of the calls that wait, the first ones."""
        self._asked_at = now
        passed, self._rated_at = now - self._rated_at, now
        if passed > 0:
            fading = math.exp(-passed / _RATE_SECONDS)
            self._own_rate = self._own_rate * fading + self._admitted / passed * (1.0 - fading)
            self._admitted = 0
        if not self.on:
            return Ask()
        expected = self._own_rate * self._rules.chunk
        held = self._pacer.held(now)
        requests = math.ceil(waiting + expected - held - 0.5)
        overdrawn = self._pacer.overdrawn()
        if requests < 1:
            return Ask(overdrawn=overdrawn)
        count, tokens = self._next_calls(requests, sizes[held:])
        return Ask(count, tokens, overdrawn)

    def _next_calls(self, most: int, sizes: Sequence[int]) -> tuple[int, float]:
        """How many of the calls behind those with a permit fit into a chunk, one at least, and their tokens.

        Those very calls, in their order: a mean that a long text further behind raises would book time for
        short calls that they do not use, and what is given back later has passed by then.
        """
        per_minute = self._limits.tokens_per_minute
        fits = math.inf if per_minute is None else per_minute / 60.0 * self._rules.chunk
        count, total = 0, 0.0
        for place in range(most):
            tokens = self.estimate.of(sizes[place]) if place < len(sizes) else self.estimate.mean
            if count and total + tokens > fits:
                break
            count, total = count + 1, total + tokens
        return count, total

    def adopt(self, view: AccountView, now: float, *, news: bool) -> bool:
        """What the account says; whether its rate has been lowered meanwhile.

        `news`: this worker knows of limits that the account has not heard of.
        """
        lowered = self._cuts is not None and view.cuts != self._cuts
        if view.cuts != self._cuts:
            self._cuts, self.cut_at = view.cuts, now
        if view.hold_seconds > 0:
            self.hold(now + view.hold_seconds)
        if view.limits is not None:
            self._limits = view.limits
            self.on = news or view.limits != Limits()
        if view.booking is not None:
            self._booking = view.booking
            # Its moment lies between question and reply: a slow reply puts it off by half of that at most.
            self._pacer.add((self._asked_at + now) / 2, view.booking.grant)
        return lowered

    def surrender(self, now: float) -> tuple[Booking, int, float] | None:
        """Drop the permits; what the account may have back of them."""
        unused = self._pacer.surrender(now)
        if unused is None or self._booking is None or unused[0] is not self._booking.grant:
            return None
        return self._booking, unused[1], unused[2]
