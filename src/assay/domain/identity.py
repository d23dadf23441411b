"""Who a record is: input identity, content fingerprint, and the record as it enters."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from assay.domain.value import value

MAX_RECORD_ID_CHARS: Final = 512
MAX_INPUT_VERSION: Final = 2**31 - 1
MAX_DOCUMENT_REF_CHARS: Final = 1024
# What a record's `priority` may be.
LOW_PRIORITY: Final = "low"
PRIORITIES: Final = ("normal", LOW_PRIORITY)

_TRACE_PARENT: Final = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<more>-.+)?"
)


class InputKey(NamedTuple):
    """Identity of an input: `record_id` and its integer version (1 or more)."""

    record_id: str
    input_version: int


def input_sha256(text: str) -> bytes:
    """SHA-256 (32 bytes) of the text as decoded, in UTF-8; nothing is normalised.

    Raises `UnicodeEncodeError` for a lone surrogate: such text is not storable and intake isolates it.
    """
    return hashlib.sha256(text.encode("utf-8")).digest()


def is_trace_parent(value: str) -> bool:
    """Whether `value` is a `traceparent` as W3C Trace Context (level 1, section 3.2.2) defines it.

    Versions after 00 may carry more fields behind the flags.
    """
    found = _TRACE_PARENT.fullmatch(value)
    return found is not None and (found["version"] != "00" or found["more"] is None)


class SourcePosition(NamedTuple):
    """Where a record came from: a registered source, its partition (0 for a file) and offset.

    `offset` is the 0-based ordinal of the record in its partition (Kafka: the broker's offset); `line` is the
    1-based physical line on which it starts (files only), for people. `epoch` tells the assignments of one
    partition to this process apart; it is not part of where the record came from. `timestamp_ms` is when the
    message was made, by its source (milliseconds since 1970; topics only).
    """

    partition: int
    offset: int
    line: int | None = None
    epoch: int = 0
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a record may carry besides its text. None of it is part of the content fingerprint.

    `priority` is one of `PRIORITIES`, `trace_parent` a W3C traceparent; `subject_id` is whom erasure follows.
    `source` is what the record itself says of where it comes from.
    """

    document_type: str | None = None
    customer: str | None = None
    subject_id: str | None = None
    language: str | None = None
    sensitivity: str | None = None
    jurisdiction: str | None = None
    schema_version: str | None = None
    ocr_version: str | None = None
    priority: str | None = None
    correlation_id: str | None = None
    trace_parent: str | None = None
    source: str | None = None


NO_ATTRIBUTES: Final = Attributes()


@value
class InputRecord:
    """A well-formed record: identity, text, source name, position and attributes.

    `document_ref` is where the text was fetched from, None where it stood in the record. A referenced
    object's bytes are its text in UTF-8, byte-order mark and all, so that `sha256` is theirs as well.
    """

    record_id: str
    input_version: int
    text: str
    source: str
    position: SourcePosition
    attributes: Attributes = NO_ATTRIBUTES
    sha256: bytes = field(default=b"", repr=False)
    document_ref: str | None = None

    def __post_init__(self) -> None:
        if not self.sha256:
            object.__setattr__(self, "sha256", input_sha256(self.text))

    @property
    def key(self) -> InputKey:
        return InputKey(self.record_id, self.input_version)


@dataclass(frozen=True, slots=True)
class MalformedInput:
    """A piece of the source that is no record. Its bytes go to the vault, `detail` holds no user data.

    `error_type` is one of a closed list: `not_utf8`, `not_json`, `not_an_object`, `missing_field`,
    `wrong_type`, `unstorable_text`, `blank_text`, `oversized`, `bad_row`, `bad_identity`, `bad_value`,
    `bad_reference`, `document_missing`, `tombstone` (a message without a value).
    `path` is a JSON Pointer of the declared field concerned, or "".
    """

    position: SourcePosition
    source: str
    raw: bytes = field(repr=False)
    error_type: str
    path: str = ""


SourceItem = InputRecord | MalformedInput
