"""What the boundary answers when it refuses: the closed list of codes, as data, and the rejection value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

MAX_ERRORS: Final = 50


class RejectionKind(StrEnum):
    """What was wrong with the payload as a whole."""

    MALFORMED = "malformed"
    INCOMPLETE = "incomplete"
    SEMANTIC = "semantic"


class RejectionCode(StrEnum):
    """Why a response was refused. The order of the members is the order of precedence."""

    RESPONSE_TOO_LARGE = "response_too_large"
    RESPONSE_TRUNCATED = "response_truncated"
    RESPONSE_EMPTY = "response_empty"
    JSON_INVALID = "json_invalid"
    JSON_DUPLICATE_KEY = "json_duplicate_key"
    SCHEMA_EXTRA_FIELD = "schema_extra_field"
    SCHEMA_TYPE_ERROR = "schema_type_error"
    SCHEMA_VALIDATION_ERROR = "schema_validation_error"
    SEMANTIC_INVALID = "semantic_invalid"
    UNEXPECTED_PARSE_ERROR = "unexpected_parse_error"


class CodeRule(NamedTuple):
    """Kind of a code, whether one regeneration is due, and whether another try may help after that."""

    kind: RejectionKind
    correctable: bool
    retryable: bool


_MALFORMED: Final = CodeRule(RejectionKind.MALFORMED, correctable=True, retryable=False)
_INCOMPLETE: Final = CodeRule(RejectionKind.INCOMPLETE, correctable=True, retryable=True)

CODE_RULES: Final[dict[RejectionCode, CodeRule]] = {
    RejectionCode.RESPONSE_TOO_LARGE: _MALFORMED,
    RejectionCode.RESPONSE_TRUNCATED: _INCOMPLETE,
    RejectionCode.RESPONSE_EMPTY: _INCOMPLETE,
    RejectionCode.JSON_INVALID: _MALFORMED,
    RejectionCode.JSON_DUPLICATE_KEY: _MALFORMED,
    RejectionCode.SCHEMA_EXTRA_FIELD: _MALFORMED,
    RejectionCode.SCHEMA_TYPE_ERROR: _MALFORMED,
    RejectionCode.SCHEMA_VALIDATION_ERROR: _MALFORMED,
    RejectionCode.SEMANTIC_INVALID: CodeRule(RejectionKind.SEMANTIC, correctable=False, retryable=False),
    RejectionCode.UNEXPECTED_PARSE_ERROR: CodeRule(
        RejectionKind.MALFORMED, correctable=False, retryable=False
    ),
}


class FieldError(NamedTuple):
    """One finding: `path` is a JSON Pointer in which every key that came from data is `*`; `type` is a name
    from the contract, from pydantic or from assay, never from the response."""

    path: str
    type: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A refusal as a value. It holds nothing of the response: no text, no values, no invented keys.

    `errors` has at most 50 entries, those of the deciding code first; `error_count` says how many there
    were. `correctable`: one regeneration is due. `retryable`: another try may help.
    """

    code: RejectionCode
    kind: RejectionKind
    correctable: bool
    retryable: bool
    errors: tuple[FieldError, ...] = ()
    error_count: int = 0
    pipeline_version: str | None = None

    @property
    def more_errors(self) -> bool:
        """Whether there were more findings than `errors` lists."""
        return self.error_count > len(self.errors)


def rejected(
    code: RejectionCode, errors: Iterable[FieldError] = (), *, error_count: int | None = None
) -> Rejected:
    """The rejection for `code`, by the table above, with at most 50 findings.

    A code about the response as a whole has one finding, at the path "".
    """
    rule = CODE_RULES[code]
    listed = tuple(errors) or (FieldError("", code.value),)
    count = len(listed) if error_count is None else error_count
    return Rejected(code, rule.kind, rule.correctable, rule.retryable, listed[:MAX_ERRORS], count)
