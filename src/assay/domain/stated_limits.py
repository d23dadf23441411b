"""What the headers of replies say about an account's limits, and whether little is left of them; pure."""

from __future__ import annotations

from typing import Final

from assay.domain.pacing import Limits
from assay.domain.rate_limits import Allowance, RateLimits

# A limit that takes longer than this to become whole again is not one per minute (some vendors state requests
# per day there): it says nothing about the pace.
LONGEST_RESET: Final = 90.0
# Below this share of the most that was ever seen left, others are using the account too.
LOW_SHARE: Final = 0.1
# A bucket this small is empty after every call: what it says about the rest means nothing.
LEAST_TELLING: Final = 10


def stated_limits(told: RateLimits, input_share: float) -> Limits:
    """The limits per minute that a reply states. `input_share`: the share of tokens that are input.

    Where input and output are limited apart, the total is what the tighter of the two allows at that share.
    """
    tokens = _per_minute(told.tokens)
    if tokens is None:
        shares = ((told.input_tokens, input_share), (told.output_tokens, 1.0 - input_share))
        totals = [
            limit / share
            for each, share in shares
            if share > 0.0 and (limit := _per_minute(each)) is not None
        ]
        tokens = min(totals, default=None)
    return Limits(_per_minute(told.requests), tokens)


def _per_minute(allowance: Allowance | None) -> float | None:
    if allowance is None or allowance.limit is None or allowance.limit < 1:
        return None
    if allowance.reset_seconds is not None and allowance.reset_seconds > LONGEST_RESET:
        return None
    return float(allowance.limit)


# One low report means little where a bucket is small; so long a time of nothing else does.
LOW_SECONDS: Final = 1.0


class Remainders:
    """Watches what is left of each limit, as one worker hears it."""

    __slots__ = ("_low_since", "_most")

    def __init__(self) -> None:
        self._most: dict[str, int] = {}
        self._low_since: float | None = None

    def low(self, now: float, told: RateLimits) -> bool:
        """Whether for a second every reply said that next to nothing is left.

        A window that ends soon may be nearly used up: what is left then suffices for the time that is left.
        """
        named = (("requests", told.requests), ("tokens", told.tokens),
                 ("input", told.input_tokens), ("output", told.output_tokens))  # fmt: skip
        low = [name for name, allowance in named if allowance is not None and self._low(name, allowance)]
        if not low:
            self._low_since = None
            return False
        if self._low_since is None:
            self._low_since = now
        return now - self._low_since >= LOW_SECONDS

    def _low(self, name: str, allowance: Allowance) -> bool:
        left = allowance.remaining
        if left is None:
            return False
        most = self._most[name] = max(self._most.get(name, 0), left)
        if most < LEAST_TELLING or left >= LOW_SHARE * most:
            return False
        limit, reset = allowance.limit, allowance.reset_seconds
        if limit is None or reset is None or reset <= 0:
            return True
        return left / reset < 0.9 * limit / 60.0
