"""The pace of a vendor account: a timeline for requests and one for tokens, for all its workers; pure.

A worker reserves a chunk of permits: the timeline moves on by what they take (the generic cell rate algorithm
with its theoretical arrival time, ITU-T I.371), and the worker sends the calls one by one over that time
(`Pacer`). So all workers together send no more than rate x (t + `late` + `slack`) + 1 calls in any t seconds,
whoever reserves when. Nobody is refused: who asks while the timeline is booked far ahead gets one permit at
its end, so that waiting is bounded by the number of workers.

`settle` and `reserve` are what the statement `sync_account` (accounts.sql) does; a test compares the two.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Limits:
    """What an account may use in a minute; None: not known, or not limited. Raises `ValueError` below 1."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    def __post_init__(self) -> None:
        for value in (self.requests_per_minute, self.tokens_per_minute):
            if value is not None and not (math.isfinite(value) and value >= 1):
                raise ValueError("a limit per minute is a finite number from 1")

    def within(self, other: Limits) -> Limits:
        """The smaller of each limit."""
        return Limits(
            _least(self.requests_per_minute, other.requests_per_minute),
            _least(self.tokens_per_minute, other.tokens_per_minute),
        )


def _least(one: float | None, other: float | None) -> float | None:
    return min(one, other) if one is not None and other is not None else one if other is None else other


@dataclass(frozen=True, slots=True)
class PaceRules:
    """How a limit is used. Times are in seconds.

    `use`: the share of it that is used, so that delays on the way do not exceed it.
    `chunk`: the most time that one reservation takes. `horizon`: how far ahead the timeline is booked before
    reservations shrink to one permit. `late`: how long after its moment a permit may still be used. `slack`:
    how much too early a chunk may begin where both requests and tokens are limited and calls come more
    often than every `burst` seconds; it lets workers with short and with long calls share well. `burst`: how
    much a worker that was delayed may send at once, where calls come more often than that.
    """

    use: float = 0.98
    chunk: float = 0.5
    horizon: float = 2.0
    late: float = 0.5
    slack: float = 0.1
    burst: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.use <= 1:
            raise ValueError("use must be above 0 and at most 1")
        if min(self.chunk, self.horizon, self.late) <= 0 or min(self.slack, self.burst) < 0:
            raise ValueError("chunk, horizon and late are above 0, slack and burst 0 or more")


@dataclass(frozen=True, slots=True)
class Ask:
    """What a worker wants: so many calls (0: none), and so many tokens for all of them.

    `overdrawn`: tokens that its last calls took beyond those booked for them; negative: short of those.
    """

    requests: int = 0
    tokens: float = 0.0
    overdrawn: float = 0.0


@dataclass(frozen=True, slots=True)
class Grant:
    """Permits for `requests` calls of `tokens` tokens, the first due in `starts_in` seconds.

    `request_seconds` and `token_seconds`: what one of each takes on the timeline; 0 where it is not limited.
    """

    starts_in: float
    requests: int
    tokens: float
    request_seconds: float
    token_seconds: float

    @property
    def seconds(self) -> float:
        """How long the calls take at the account's pace."""
        return max(self.requests * self.request_seconds, self.tokens * self.token_seconds)


@dataclass(frozen=True, slots=True)
class Timeline:
    """When the next request and the next token are due, and until when nothing may be sent at all."""

    next_request_at: float = 0.0
    next_token_at: float = 0.0
    hold_until: float = 0.0


# Seconds that a timeline reaches ahead at most, and requests that may stand in line beyond that.
FURTHEST: Final = 60.0
IN_LINE: Final = 16
# No vendor is heard when it asks for a longer pause (seconds).
LONGEST_HOLD: Final = 3600.0


def in_reach(line: Timeline, now: float, limits: Limits) -> Timeline:
    """The line without what cannot lie so far ahead, whatever put it there."""
    return Timeline(
        min(line.next_request_at, now + FURTHEST + IN_LINE * _each(limits.requests_per_minute)),
        min(line.next_token_at, now + FURTHEST),
        min(line.hold_until, now + LONGEST_HOLD),
    )


def settle(
    line: Timeline, now: float, limits: Limits, *, unbooked: int = 0, token_error: float = 0.0
) -> Timeline:
    """Put on the timeline what went by it: calls sent before there was a pace, tokens beyond those booked.

    A second of such calls is as much as is made good, and tokens never book the account further ahead than
    `FURTHEST`: a vendor that miscounts costs that and no more.
    """
    each = _each(limits.requests_per_minute)
    line = in_reach(line, now, limits)
    request_at = line.next_request_at
    if unbooked:
        request_at = max(now, request_at) + min(unbooked * each, max(each, _MOST_MADE_GOOD))
    error = token_error * _each(limits.tokens_per_minute)
    token_at = min(line.next_token_at + max(min(error, FURTHEST), -FURTHEST), now + FURTHEST)
    return replace(line, next_request_at=request_at, next_token_at=token_at)


def reserve(
    line: Timeline, now: float, limits: Limits, ask: Ask, rules: PaceRules
) -> tuple[Timeline, Grant | None]:
    """Book a chunk; None for an account without limits, or when nothing is asked for.

    `limits` are used as they are: `PaceRules.use` has been applied.
    """
    request_seconds = _each(limits.requests_per_minute)
    token_seconds = _each(limits.tokens_per_minute)
    if ask.requests < 1 or not (request_seconds or token_seconds):
        return line, None
    both = request_seconds and token_seconds and request_seconds <= rules.burst
    slack = rules.slack if both else 0.0
    start = max(
        now,
        line.hold_until,
        line.next_request_at - slack if request_seconds else now,
        line.next_token_at - slack if token_seconds else now,
    )
    chunk = min(rules.chunk, max((rules.horizon - (start - now)) / 2, 0.0))
    each = ask.tokens / ask.requests
    step = max(request_seconds, each * token_seconds)
    requests = max(1, min(ask.requests, math.floor(chunk / step) if step > 0 else ask.requests))
    grant = Grant(start - now, requests, each * requests, request_seconds, token_seconds)
    return replace(
        line,
        next_request_at=max(start, line.next_request_at) + requests * request_seconds,
        next_token_at=max(start, line.next_token_at) + grant.tokens * token_seconds,
    ), grant


_MOST_MADE_GOOD: Final = 1.0


def _each(per_minute: float | None) -> float:
    return 60.0 / per_minute if per_minute is not None else 0.0


_NEARLY_ONE: Final = 1.0 - 1e-6


@dataclass(slots=True)
class _Span:
    """A grant being used. Used amounts are not whole where permits have run out unused."""

    grant: Grant
    start: float
    requests: float = 0.0
    tokens: float = 0.0

    @property
    def due(self) -> float:
        grant = self.grant
        return self.start + max(self.requests * grant.request_seconds, self.tokens * grant.token_seconds)

    @property
    def spent(self) -> bool:
        grant = self.grant
        return grant.requests - self.requests < _NEARLY_ONE or (
            grant.token_seconds > 0 and self.tokens > 0 and self.tokens >= grant.tokens
        )

    def forfeit(self, before: float) -> None:
        """Permits whose moment lies before are gone."""
        grant = self.grant
        passed = before - self.due
        if passed <= 0:
            return
        step = grant.seconds / grant.requests
        lost = passed / step if step > 0 else float(grant.requests)
        self.requests += lost
        self.tokens += min(lost * grant.tokens / grant.requests, max(grant.tokens - self.tokens, 0.0))


def _seconds(grant: Grant, tokens: float, most: float) -> float:
    """The distance to the next call. What a large one takes beyond its permit, the account books later."""
    return max(grant.request_seconds, min(tokens * grant.token_seconds, most))


class Pacer:
    """The permits that one worker holds, and when each may be used. `now` is in seconds on one clock."""

    __slots__ = ("_burst", "_free_at", "_hold_until", "_overdrawn", "_rules", "_spans")

    def __init__(self, rules: PaceRules) -> None:
        self._rules = rules
        self._spans: deque[_Span] = deque()
        # When the last call's time is over at the account's pace, and how much earlier the next may go.
        self._free_at, self._burst = float("-inf"), 0.0
        self._overdrawn = 0.0
        self._hold_until = float("-inf")

    def add(self, now: float, grant: Grant) -> None:
        """A reservation has come back, at `now`."""
        self._spans.append(_Span(grant, now + grant.starts_in))

    def take(self, now: float, tokens: float) -> float | None:
        """Use a permit for a call of so many tokens: 0.0 done, else seconds to wait; None: none is left."""
        while self._spans:
            span = self._spans[0]
            span.forfeit(now - self._rules.late)
            if span.spent:
                if span.grant.token_seconds > 0:
                    self._overdrawn += span.tokens - span.grant.tokens
                self._spans.popleft()
                continue
            due = max(span.due, self._free_at - self._burst, self._hold_until)
            if due > now:
                return due - now
            # A worker that was late keeps the distance all the same, but for a burst where calls are close.
            seconds = _seconds(span.grant, tokens, self._rules.burst)
            self._free_at = max(self._free_at, now) + seconds
            self._burst = self._rules.burst if seconds <= self._rules.burst else 0.0
            span.requests += 1
            span.tokens += tokens
            return 0.0
        return None

    def overdrawn(self) -> float:
        """Tokens that calls took beyond those of their grants since the last time; negative: short of them.

        A grant is booked for calls of a mean size, and used by long and short ones.
        """
        tokens, self._overdrawn = self._overdrawn, 0.0
        return tokens

    def put_back(self, tokens: float) -> None:
        """A permit just taken was not used."""
        if self._spans:
            self._spans[0].requests = max(self._spans[0].requests - 1, 0.0)
            self._spans[0].tokens = max(self._spans[0].tokens - tokens, 0.0)
            self._free_at -= _seconds(self._spans[0].grant, tokens, self._rules.burst)

    def hold(self, until: float) -> None:
        """Send nothing before: what was due until then is lost."""
        self._hold_until = max(self._hold_until, until)

    def held(self, now: float) -> int:
        """Permits that can still be used."""
        count = 0
        for span in self._spans:
            span.forfeit(now - self._rules.late)
            count += max(int(span.grant.requests - span.requests + 1e-6), 0)
        return count

    def covered_until(self, now: float) -> float:
        """When the last permit is due; `now` without any."""
        return max((span.start + span.grant.seconds for span in self._spans), default=now)

    def surrender(self, now: float) -> tuple[Grant, int, float] | None:
        """Drop everything; the last grant, and the requests and tokens of it that lie ahead."""
        if not self._spans:
            return None
        span = self._spans[-1]
        self._spans.clear()
        span.forfeit(now)
        requests = int(span.grant.requests - span.requests + 1e-6)
        if requests < 1:
            return None
        return span.grant, requests, max(span.grant.tokens - span.tokens, 0.0)
