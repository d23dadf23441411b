"""What a vendor says about its limits in the headers of a reply: values, no policy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allowance:
    """One limit per minute: its size, what is left of it now, seconds until it is whole again.

    None for each that the vendor did not state.
    """

    limit: int | None = None
    remaining: int | None = None
    reset_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The limits of one account as one reply states them; None for those it does not name.

    `tokens` counts input and output together; vendors that count them apart state the other two.
    """

    requests: Allowance | None = None
    tokens: Allowance | None = None
    input_tokens: Allowance | None = None
    output_tokens: Allowance | None = None
