"""What a call costs in tokens, learned from the calls of one pipeline version."""

from __future__ import annotations

from typing import Final

_WEIGHT: Final = 0.05
_SHARE_WEIGHT: Final = 0.01
_UNTIL_KNOWN: Final = 1000.0
# How much the first guess at the slope weighs, as a share of the mean guess squared; the least estimate.
_PRIOR: Final = 0.01
_LEAST_SHARE: Final = 0.1
# More tokens than this many times what could be sent and answered are a miscount, not a use.
_TIMES: Final = 16
_CHARACTERS_PER_TOKEN: Final = 4
_LONGEST_ANSWER: Final = 200_000


def believable(size: int, input_tokens: int, output_tokens: int) -> bool:
    """Whether a call guessed at `size` tokens (0: no idea) may have taken so many; no: nothing is known."""
    if min(input_tokens, output_tokens) < 0:
        return False
    return 0 < input_tokens + output_tokens <= _TIMES * (size * _CHARACTERS_PER_TOKEN + _LONGEST_ANSWER)


class TokenEstimate:
    """Tokens per call, and how they grow with the caller's own guess: a line through weighted means.

    A share of the guess alone would take a long text for far more than it is: every call carries the same
    instructions. While sizes have hardly differed, a token more in the guess is taken for one more.
    """

    __slots__ = ("_known", "_mean", "_size", "_sized", "_spread", "_together", "input_share")

    def __init__(self) -> None:
        self._known = False
        self._mean = _UNTIL_KNOWN
        # Means of guesses and of what those calls took; the variance of the first, the covariance of both.
        self._size: float | None = None
        self._sized = self._spread = self._together = 0.0
        self.input_share = 0.8

    @property
    def mean(self) -> float:
        """Tokens of a call of which nothing is known."""
        return self._mean

    def of(self, size: int) -> float:
        """Tokens of a call that its caller guesses at `size` (0: no idea)."""
        if size <= 0:
            return self._mean
        if self._size is None:
            return float(size)
        prior = _PRIOR * self._size * self._size
        slope = max((self._together + prior) / (self._spread + prior), 0.0)
        return max(self._sized + slope * (size - self._size), _LEAST_SHARE * self._sized, 1.0)

    def learn(self, size: int, input_tokens: int, output_tokens: int) -> bool:
        """What a call took in the end; whether that can be believed."""
        if not believable(size, input_tokens, output_tokens):
            return False
        total = input_tokens + output_tokens
        weight = _WEIGHT if self._known else 1.0
        self._mean += weight * (total - self._mean)
        if size > 0:
            self._learn_line(float(size), float(total))
        self.input_share += (_SHARE_WEIGHT if self._known else 1.0) * (
            input_tokens / total - self.input_share
        )
        self._known = True
        return True

    def _learn_line(self, size: float, total: float) -> None:
        if self._size is None:
            self._size, self._sized = size, total
            return
        larger, more = size - self._size, total - self._sized
        self._size += _WEIGHT * larger
        self._sized += _WEIGHT * more
        self._spread = (1.0 - _WEIGHT) * (self._spread + _WEIGHT * larger * larger)
        self._together = (1.0 - _WEIGHT) * (self._together + _WEIGHT * larger * more)
