"""Limits per account: requests and tokens per minute, and calls at once.

Each limit per minute is a bucket that is refilled continuously, at limit / 60 a second, and holds
`limit_burst` seconds' worth (at least one). It starts full. A call is admitted when every bucket holds what
it needs, and takes it from all of them; otherwise it is refused and takes nothing. A call that is larger
than the bucket is admitted when the bucket is full and leaves a debt. In any span of t seconds an account
thus gets at most limit / 60 x (t + burst), and what one call is larger than the bucket.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from assay.vendor.settings import VendorConfig
from assay.vendor.stats import AccountStats, Stats
from assay.vendor.windows import SlidingMost

MOST_ACCOUNTS: Final = 10_000
NO_KEY: Final = "none"
OTHERS: Final = "others"
_ROUNDING: Final = 1e-6


def account_of(key: str | None) -> str:
    """The account's name in journal and counts: `none`, or `key-` and 12 hex digits of the key's SHA-256."""
    if key is None:
        return NO_KEY
    return "key-" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:12]


class Bucket:
    """A bucket of one limit per minute."""

    __slots__ = ("_at", "_level", "_rate", "capacity", "limit")

    def __init__(self, limit: int, burst: float, now: float) -> None:
        self.limit = limit
        self._rate = limit / 60.0
        self.capacity = max(1.0, self._rate * burst)
        self._level = self.capacity
        self._at = now

    def wait(self, amount: int, now: float) -> float:
        """Seconds until `amount` would be admitted; 0 for now."""
        self._level = min(self.capacity, self._level + (now - self._at) * self._rate)
        self._at = now
        lacking = min(float(amount), self.capacity) - self._level
        # What is refilled in many small steps must not miss the whole by rounding.
        return 0.0 if lacking <= _ROUNDING else lacking / self._rate

    def take(self, amount: int) -> None:
        """Take what `wait` has admitted."""
        self._level -= amount

    def state(self, now: float) -> BucketState:
        """What the reply's headers say."""
        self.wait(0, now)
        return BucketState(
            self.limit, max(0, int(self._level + _ROUNDING)), (self.capacity - self._level) / self._rate
        )


@dataclass(frozen=True, slots=True)
class BucketState:
    """The limit per minute, what is in the bucket, and seconds until it is full."""

    limit: int
    remaining: int
    reset: float


@dataclass(frozen=True, slots=True)
class TooMuch:
    """Why a call was not admitted (`requests`, `tokens` or `concurrency`) and seconds until it may be.

    Where two limits refuse, it is the one that takes longer.
    """

    limit: str
    wait: float


class Account:
    """One caller: buckets, calls in flight and counts."""

    __slots__ = ("_config", "_minute", "_second", "counts", "name", "requests", "tokens")

    def __init__(self, name: str, counts: AccountStats) -> None:
        self.name = name
        self.counts = counts
        self.requests: Bucket | None = None
        self.tokens: Bucket | None = None
        self._config: VendorConfig | None = None
        self._minute = SlidingMost(60.0)
        self._second = SlidingMost(1.0)

    def admit(self, config: VendorConfig, tokens: int, now: float) -> TooMuch | None:
        """Admit a call of so many tokens, or say why not. An admitted call must be `released`."""
        if config is not self._config:
            self._configure(config, now)
        counts = self.counts
        if (limit := config.limit_concurrency) is not None and counts.in_flight >= limit:
            counts.refused += 1
            return TooMuch("concurrency", 1.0)
        for_requests = 0.0 if self.requests is None else self.requests.wait(1, now)
        for_tokens = 0.0 if self.tokens is None else self.tokens.wait(tokens, now)
        if for_requests > 0 or for_tokens > 0:
            counts.refused += 1
            longer = "requests" if for_requests >= for_tokens else "tokens"
            return TooMuch(longer, max(for_requests, for_tokens))
        if self.requests is not None:
            self.requests.take(1)
        if self.tokens is not None:
            self.tokens.take(tokens)
        self._count(tokens, now)
        return None

    def release(self) -> None:
        """An admitted call has ended."""
        self.counts.in_flight -= 1

    def _count(self, tokens: int, now: float) -> None:
        counts, minute, second = self.counts, self._minute, self._second
        minute.add(now, tokens)
        second.add(now, tokens)
        counts.admitted += 1
        counts.in_flight += 1
        counts.peak_in_flight = max(counts.peak_in_flight, counts.in_flight)
        counts.most_in_60s, counts.most_tokens_in_60s = minute.most_calls, minute.most_tokens
        counts.most_in_1s, counts.most_tokens_in_1s = second.most_calls, second.most_tokens

    def _configure(self, config: VendorConfig, now: float) -> None:
        """Take over changed limits: a bucket whose limit or size changed starts full."""
        before, self._config = self._config, config
        same_burst = before is not None and before.limit_burst == config.limit_burst
        if not same_burst or before is None or before.limit_requests != config.limit_requests:
            self.requests = _bucket(config.limit_requests, config.limit_burst, now)
        if not same_burst or before is None or before.limit_tokens != config.limit_tokens:
            self.tokens = _bucket(config.limit_tokens, config.limit_burst, now)


class Accounts:
    """All accounts that called. Beyond ten thousand, new ones share the account `others`."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats
        self._names: dict[str | None, str] = {}
        self._accounts: dict[str, Account] = {}

    def name(self, key: str | None) -> str:
        """The name of the account of a key."""
        name = self._names.get(key)
        if name is None:
            name = account_of(key) if len(self._names) < MOST_ACCOUNTS else OTHERS
            if name != OTHERS:
                self._names[key] = name
        return name

    def get(self, name: str) -> Account:
        """The account with a name."""
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = Account(name, self._stats.account(name))
        return account


def _bucket(limit: int | None, burst: float, now: float) -> Bucket | None:
    return None if limit is None else Bucket(limit, burst, now)
