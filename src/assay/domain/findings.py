"""What is found wrong while a response is read against its contract."""

from __future__ import annotations

from typing import Final

from assay.domain.rejection import MAX_ERRORS, FieldError, Rejected, RejectionCode, rejected

ANY_KEY: Final = "*"


class Invalid:
    """The one value that stands where a value was refused; nothing accepts it."""

    __slots__ = ()


INVALID: Final = Invalid()


def pointer(trail: list[str | int]) -> str:
    """The JSON Pointer (RFC 6901) of a trail of declared keys, indexes and `*`."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in trail)


class Findings:
    """Findings by code, and the trail to the place that is being read.

    `trail` holds declared names and indexes, `*` for every key that came from data. At most 50 findings
    per code are kept, all are counted, so that a response of any size has a small rejection.
    """

    __slots__ = ("by_code", "total", "trail")

    def __init__(self, trail: list[str | int] | None = None) -> None:
        self.trail: list[str | int] = [] if trail is None else trail
        self.by_code: dict[RejectionCode, list[FieldError]] = {}
        self.total = 0

    def add(self, code: RejectionCode, error_type: str) -> Invalid:
        """Records a finding at the trail. Returns the value that stands for what was refused."""
        self.total += 1
        kept = self.by_code.setdefault(code, [])
        if len(kept) < MAX_ERRORS:
            kept.append(FieldError(pointer(self.trail), error_type))
        return INVALID

    def add_at(self, part: str | int, code: RejectionCode, error_type: str) -> Invalid:
        """Records a finding one step below the trail."""
        self.trail.append(part)
        self.add(code, error_type)
        self.trail.pop()
        return INVALID

    def merge(self, other: Findings) -> None:
        """Takes over what was found on a trial reading."""
        self.total += other.total
        for code, found in other.by_code.items():
            kept = self.by_code.setdefault(code, [])
            kept.extend(found[: MAX_ERRORS - len(kept)])

    def wrong_type(self, error_type: str) -> Invalid:
        return self.add(RejectionCode.SCHEMA_TYPE_ERROR, error_type)

    def wrong_value(self, error_type: str) -> Invalid:
        return self.add(RejectionCode.SCHEMA_VALIDATION_ERROR, error_type)

    def rejection(self) -> Rejected:
        """The rejection: the first code by precedence decides, its findings come first."""
        codes = [code for code in RejectionCode if code in self.by_code]
        errors = [error for code in codes for error in self.by_code[code]]
        return rejected(codes[0], errors, error_count=self.total)
