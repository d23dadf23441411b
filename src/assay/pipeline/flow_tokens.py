"""What a call costs in tokens, learned from the calls of one pipeline version."""

from __future__ import annotations

from typing import Final

_WEIGHT: Final = 0.05
_SHARE_WEIGHT: Final = 0.01
_UNTIL_KNOWN: Final = 1000.0


class TokenEstimate:
    """An exponentially weighted mean of tokens per call, and of tokens per unit of the caller's own guess."""

    __slots__ = ("_known", "_mean", "_ratio", "input_share")

    def __init__(self) -> None:
        self._known = False
        self._mean = _UNTIL_KNOWN
        self._ratio = 1.0
        self.input_share = 0.8

    @property
    def mean(self) -> float:
        """Tokens of a call of which nothing is known."""
        return self._mean

    def of(self, size: int) -> float:
        """Tokens of a call that its caller guesses at `size` (0: no idea)."""
        return size * self._ratio if size > 0 else self._mean

    def learn(self, size: int, input_tokens: int, output_tokens: int) -> None:
        """What a call took in the end."""
        total = input_tokens + output_tokens
        if total <= 0:
            return
        weight = _WEIGHT if self._known else 1.0
        self._mean += weight * (total - self._mean)
        if size > 0:
            self._ratio += weight * (total / size - self._ratio)
        self.input_share += (_SHARE_WEIGHT if self._known else 1.0) * (
            input_tokens / total - self.input_share
        )
        self._known = True
