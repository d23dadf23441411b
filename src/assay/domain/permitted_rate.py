"""The rate that an account's vendor lets through, found by pushing until it pushes back; pure.

For vendors that tell their limits it only repairs what went wrong; for those that hide them it is the pace.
Rates are requests per minute over all workers, times are in seconds. `sync_account` (accounts.sql) follows
`adjust`; a test compares the two.

After a push-back the rate is CUT of the one that failed; where no limit is stated, what the vendor has just
been answering, if that is less, but not less than half: what it answers while it refuses the rest is its
limit, and stands for the rate that failed. Then it rises quickly to near the rate that failed, slowly past
it, and quickly again once that is left behind (the shape of CUBIC, RFC 9438, with straight pieces): so it
stays close to a limit that it cannot see, and meets few refusals there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final


class Push(IntEnum):
    """What the vendor let us feel: nothing, little left for us in its headers, or a refusal."""

    NONE = 0
    LOW = 1
    REFUSED = 2


# The answers of the last ten seconds or so tell the rate.
MEMORY: Final = 10.0
# One adjustment downwards in so many seconds: the effect must be seen before the next.
CUT_EVERY: Final = 1.0
CUT: Final = 0.92
LOW_CUT: Final = 0.9
MOST_CUT: Final = 0.5
OF_ANSWERED: Final = 0.95
LEAST: Final = 1.0
# Where a limit begins of which nothing is known, not even how much was answered lately: a worker that has
# only started would stand still for a minute. And where it ends: more than any vendor lets through.
FIRST: Final = 600.0
MOST: Final = 1e6
# Growth per second: towards a limit that the vendor stated; before any paced rate has failed; far from a
# hidden limit, and near it.
TO_STATED: Final = 0.02
UNKNOWN: Final = 1.0
FAR: Final = 0.05
NEAR: Final = 0.002
NEAR_FROM: Final = 0.9
NEAR_TO: Final = 1.1
# So many seconds after a cut growth quickens, with the square of the time (the convex half of CUBIC): what
# failed may have failed for another reason, and must not bind for minutes.
PATIENCE: Final = 15.0
LONGEST_STEP: Final = 2.0
# A timeline that is booked up to now, or nearly, is one whose limit is being felt.
NEARLY_NOW: Final = 0.25
# Where only tokens are limited by what the vendor states: so far above the answers, the rate bounds nothing.
NOT_FELT: Final = 1.25


@dataclass(frozen=True, slots=True)
class Permitted:
    """`rate`: None while nothing but the stated limits bounds it. `failed`: the rate that was last too fast.

    `answered`: answers, those of t seconds ago counted by exp(-t / MEMORY), as of `counted_at`; counted since
    `since`.
    """

    rate: float | None = None
    failed: float | None = None
    grown_at: float = 0.0
    cut_at: float | None = None
    answered: float = 0.0
    counted_at: float = 0.0
    since: float = 0.0


def count(state: Permitted, now: float, answers: int) -> Permitted:
    """Add answers that came since the last time."""
    fading = math.exp(-max(now - state.counted_at, 0.0) / MEMORY)
    return replace(state, answered=state.answered * fading + answers, counted_at=now)


def answered_per_minute(state: Permitted, now: float) -> float:
    """The rate of answers lately, corrected for a count that has only begun."""
    age = max(now - state.since, 1.0)
    return 60.0 * state.answered / (MEMORY * (1.0 - math.exp(-age / MEMORY)))


def adjust(
    state: Permitted,
    now: float,
    push: Push,
    *,
    stated: float | None,
    booked_until: float,
    tokens_stated: bool = False,
) -> Permitted:
    """The state after a sync at `now`. `stated`: the limit that the vendor or the user names (share applied).

    `tokens_stated`: a limit of tokens is named. Where it is the only one, it was met by the tokens, most
    likely: the rate recovers as towards a stated limit, and goes once it is not felt.

    `booked_until`: the end of the timeline: a rate that is not being used does not grow.
    """
    if push is not Push.NONE:
        if state.cut_at is not None and now - state.cut_at < CUT_EVERY:
            return replace(state, grown_at=now)
        return replace(_cut(state, now, push, stated), grown_at=now, cut_at=now)
    if state.rate is None:
        return replace(state, grown_at=now)
    rate = state.rate
    if booked_until > now - NEARLY_NOW:
        rate *= 1.0 + _growth(state, now, stated, tokens_stated) * min(
            max(now - state.grown_at, 0.0), LONGEST_STEP
        )
        rate = min(rate, MOST)
    if stated is not None:
        reached = rate >= stated
    else:
        reached = tokens_stated and rate > NOT_FELT * OF_ANSWERED * answered_per_minute(state, now)
    return replace(state, rate=None if reached else rate, grown_at=now)


def _cut(state: Permitted, now: float, push: Push, stated: float | None) -> Permitted:
    base = state.rate if state.rate is not None else stated
    answered = OF_ANSWERED * answered_per_minute(state, now)
    if push is Push.LOW:
        return replace(state, rate=max((base if base is not None else answered) * LOW_CUT, LEAST))
    if base is None:
        return replace(state, rate=max(answered, FIRST))
    if stated is not None or answered >= CUT * base:
        return replace(state, rate=max(CUT * base, LEAST), failed=base)
    if answered < MOST_CUT * base:
        return replace(state, rate=max(MOST_CUT * base, LEAST), failed=base)
    # While some calls are refused, those that are answered are the limit.
    return replace(state, rate=max(answered, LEAST), failed=answered / OF_ANSWERED)


def _growth(state: Permitted, now: float, stated: float | None, tokens_stated: bool) -> float:
    if stated is not None:
        return TO_STATED
    if state.failed is None or state.rate is None:
        return UNKNOWN
    if tokens_stated:
        return TO_STATED
    near = NEAR_FROM * state.failed <= state.rate <= NEAR_TO * state.failed
    waited = 0.0 if state.cut_at is None else max(now - state.cut_at, 0.0)
    return min((NEAR if near else FAR) * max(waited / PATIENCE, 1.0) ** 2, UNKNOWN)
