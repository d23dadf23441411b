"""What a call costs in tokens, learned from the calls of one pipeline version."""

from __future__ import annotations

from typing import Final

_WEIGHT: Final = 0.05
_SHARE_WEIGHT: Final = 0.01
_UNTIL_KNOWN: Final = 1000.0
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

    def learn(self, size: int, input_tokens: int, output_tokens: int) -> bool:
        """What a call took in the end; whether that can be believed."""
        if not believable(size, input_tokens, output_tokens):
            return False
        total = input_tokens + output_tokens
        weight = _WEIGHT if self._known else 1.0
        self._mean += weight * (total - self._mean)
        if size > 0:
            self._ratio += weight * (total / size - self._ratio)
        self.input_share += (_SHARE_WEIGHT if self._known else 1.0) * (
            input_tokens / total - self.input_share
        )
        self._known = True
        return True
