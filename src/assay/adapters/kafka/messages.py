"""A message of a topic becomes a record or, with its bytes and a reason, malformed input."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import methodcaller
from typing import Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from assay.domain.identity import MAX_RECORD_ID_CHARS, MalformedInput, SourcePosition, is_trace_parent
from assay.domain.record_json import ObjectFields, parse_object
from assay.domain.record_mapping import SourceRules
from assay.domain.records import ABSENT, ParsedItem, Piece, Refused, to_item
from assay.domain.text import is_blank, is_storable

_ask_headers: Final = methodcaller("headers")
_YEAR_10000: Final = 253_402_300_800_000
# Headers that say what the record itself does not; the first one that is there counts.
_HEADERS: Final = {
    "trace_parent": ("traceparent",),
    "correlation_id": ("correlation_id", "correlation-id", "x-correlation-id"),
}


@dataclass(frozen=True, slots=True)
class Received:
    """What one message holds, apart from the client library: `value` is None for a tombstone."""

    position: SourcePosition
    value: bytes | None
    headers: tuple[tuple[str, bytes | str | None], ...] = ()


def received(message: Message, epoch: int) -> Received:
    """Takes a message without an error apart."""
    position = SourcePosition(
        message.partition() or 0, message.offset() or 0, None, epoch, timestamp_of(message.timestamp())
    )
    return Received(position, message.value(), _headers_of(message))


def _headers_of(message: Message) -> tuple[tuple[str, bytes | str | None], ...]:
    """The headers; none where a name is not UTF-8. The client then returns a list with an exception pending
    (confluent-kafka 2.16), which only a call through C is sure to raise; a second call may crash it."""
    try:
        headers = _ask_headers(message)
    except (SystemError, UnicodeDecodeError):
        return ()
    return tuple(headers.items() if isinstance(headers, dict) else headers or ())


def timestamp_of(found: tuple[int, int]) -> int | None:
    """Milliseconds since 1970, from the client's pair of kind and time. Producers set it: a time that no
    calendar has is none."""
    kind, milliseconds = found
    return milliseconds if kind != TIMESTAMP_NOT_AVAILABLE and 0 <= milliseconds < _YEAR_10000 else None


class MessageReader:
    """Reads the messages of one topic by the rules of its source."""

    def __init__(self, rules: SourceRules) -> None:
        self._rules = rules
        self._fields = ObjectFields(rules.mapping, documents=rules.documents)

    def item(self, message: Received) -> ParsedItem:
        """The record, or why there is none: no value, too many bytes, not one JSON object, no record id."""
        raw, position = message.value, message.position
        if raw is None:
            return self._malformed(message, "tombstone")
        if len(raw) > self._rules.max_record_bytes:
            return self._malformed(message, "oversized")
        try:
            piece = self._fields.piece(parse_object(raw), position.offset)
        except Refused as refused:
            return self._malformed(message, refused.error_type, refused.path)
        if piece.record_id is ABSENT:
            # A row of a file may go by its number; a message is sent again at another offset.
            return self._malformed(message, "missing_field", "/record_id")
        return to_item(_with_headers(piece, message), self._rules.name, position, raw)

    def _malformed(self, message: Received, error_type: str, path: str = "") -> MalformedInput:
        return MalformedInput(message.position, self._rules.name, message.value or b"", error_type, path)


def _with_headers(piece: Piece, message: Received) -> Piece:
    if not message.headers:
        return piece
    has = {name for name, value in piece.attributes if value is not None}
    told = [
        (name, value)
        for name, keys in _HEADERS.items()
        if name not in has and (value := _header(message, keys, name)) is not None
    ]
    return replace(piece, attributes=(*piece.attributes, *told)) if told else piece


def _header(message: Received, keys: tuple[str, ...], name: str) -> str | None:
    """A header's value where it is usable; what somebody's tracing wrote never makes a record malformed."""
    for key, value in message.headers:
        if key.lower() not in keys or value is None:
            continue
        try:
            text = value.decode("utf-8") if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            return None
        if not is_storable(text) or is_blank(text) or len(text) > MAX_RECORD_ID_CHARS:
            return None
        return text if name != "trace_parent" or is_trace_parent(text) else None
    return None
