"""An event as it leaves: the bytes of its body and its headers, the same at every sending.

The body is a JSON object with its keys in this order: `event_id`, `kind`, `schema`, `aggregate`, `revision`,
`epoch`, `occurred_at`, `data`; keys inside `data` are sorted. The headers are those of CloudEvents 1.0 in
binary mode for Kafka. The shape of every kind is in `events_bodies`, its JSON schema in docs/events.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC
from decimal import Decimal
from hashlib import sha256
from json.encoder import encode_basestring as quoted
from typing import Any, Final

from assay.domain.outbox import OutboxEvent

# The version of each kind's schema that is written. Within a version only optional fields are added.
SCHEMA_VERSION: Final[Mapping[str, int]] = {
    "completed": 1,
    "superseded": 1,
    "quarantined": 1,
    "rejected": 1,
    "conflict": 1,
    "isolated": 1,
    "promotion_frozen": 1,
}

SOURCE: Final = "/assay"
CONTENT_TYPE: Final = "application/json"
# Correlation id and trace context of the record, where the payload has them: header by payload key.
_TRACING: Final = {"correlation_id": "correlation-id", "traceparent": "traceparent"}
_HEADER_TEXT: Final = re.compile(r"[\x21-\x7e]{1,256}", re.ASCII)


class UnfitEvent(ValueError):
    """An event that cannot be written as it is. `reason` is a code; the same again does not help.

    `event_kind_unknown`: a newer release wrote a kind that this one does not know. `event_unwritable`: the
    payload is no JSON object.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def type_of(event: OutboxEvent) -> str:
    """The event's type with its schema version, `assay.result.completed.v1`. Raises `UnfitEvent`."""
    return f"assay.{event.aggregate_kind}.{event.kind}.v{_version(event.kind)}"


def schema_id(kind: str, version: int) -> str:
    """The name of a schema, as `$id` in its file and as `dataschema` in headers."""
    return f"urn:assay:event:{kind}:v{version}"


def time_of(event: OutboxEvent) -> str:
    """When it happened, RFC 3339 in UTC with microseconds."""
    return event.created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def epoch_of(event: OutboxEvent) -> int:
    """The restore epoch in which the event was written: the one that its id is derived from.

    `event.restore_epoch` is the database's of today. An event that was sent before a restore and is sent
    again after it must not look newer than what consumers saw meanwhile. Where none fits, today's is told.
    """
    if event.restore_epoch == 0:
        return 0
    kind = f"superseded:{event.task_id}" if event.kind == "superseded" else event.kind
    start = f"{event.aggregate_kind}\x1f{event.aggregate_id}\x1f{kind}\x1f{event.revision}\x1f"
    for epoch in range(event.restore_epoch, -1, -1):
        if sha256(f"{start}{epoch}".encode()).digest()[:16] == event.event_id.bytes:
            return epoch
    return event.restore_epoch


def body_of(event: OutboxEvent) -> bytes:
    """The event as one line of JSON in UTF-8, byte for byte the same whenever it is sent.

    Numbers given as `Decimal` keep the digits they have. Raises `UnfitEvent`.
    """
    try:
        text = (
            f'{{"event_id":"{event.event_id}","kind":{quoted(event.kind)},"schema":{_version(event.kind)},'
            f'"aggregate":{{"kind":{quoted(event.aggregate_kind)},"id":{quoted(event.aggregate_id)}}},'
            f'"revision":{event.revision},"epoch":{epoch_of(event)},'
            f'"occurred_at":"{time_of(event)}","data":{_object(event.payload)}}}'
        )
        return text.encode()
    except UnicodeEncodeError as error:
        raise UnfitEvent("event_unwritable") from error


def headers_of(event: OutboxEvent, source: str = SOURCE) -> dict[str, str]:
    """CloudEvents 1.0 headers in binary mode, named as for Kafka. Values are plain text, nothing is escaped.

    `correlation-id` and `traceparent` follow where the payload has them in a form fit for a header. Raises
    `UnfitEvent`.
    """
    headers = {
        "ce_specversion": "1.0",
        "ce_id": str(event.event_id),
        "ce_source": source,
        "ce_type": type_of(event),
        "ce_time": time_of(event),
        "ce_subject": event.aggregate_id,
        "ce_dataschema": schema_id(event.kind, _version(event.kind)),
        "content-type": CONTENT_TYPE,
    }
    for key, header in _TRACING.items():
        value = event.payload.get(key)
        if isinstance(value, str) and _HEADER_TEXT.fullmatch(value):
            headers[header] = value
    return headers


def _version(kind: str) -> int:
    version = SCHEMA_VERSION.get(kind)
    if version is None:
        raise UnfitEvent("event_kind_unknown")
    return version


def _object(payload: Mapping[str, Any]) -> str:
    try:
        return json.dumps(
            payload,
            ensure_ascii=False,
            sort_keys=True,
            allow_nan=False,
            separators=(",", ":"),
            default=_exact,
        )
    except _Exact:
        return _emit(payload)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnfitEvent("event_unwritable") from error


class _Exact(Exception):
    """A number that the standard library's writer would round."""


def _exact(value: object) -> object:
    if isinstance(value, Decimal):
        raise _Exact
    raise TypeError(type(value).__name__)


def _emit(value: object) -> str:
    """The same text as `json.dumps` above, with decimals digit by digit."""
    match value:
        case None | bool() | str():
            return quoted(value) if isinstance(value, str) else json.dumps(value)
        case int():
            return int.__repr__(value)
        case float() if math.isfinite(value):
            return float.__repr__(value)
        case Decimal() if value.is_finite():
            return str(value)
        case Mapping():
            if not all(isinstance(key, str) for key in value):
                raise UnfitEvent("event_unwritable")
            return "{" + ",".join(f"{quoted(key)}:{_emit(value[key])}" for key in sorted(value)) + "}"
        case Sequence():
            return "[" + ",".join(_emit(item) for item in value) + "]"
        case _:
            raise UnfitEvent("event_unwritable")
