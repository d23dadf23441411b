"""One event as a consumer reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NoReturn, TypeAlias
from uuid import UUID

# The kinds and schema versions that this release knows.
KNOWN: Final[Mapping[str, int]] = {
    "completed": 1,
    "superseded": 1,
    "quarantined": 1,
    "rejected": 1,
    "conflict": 1,
    "isolated": 1,
    "promotion_frozen": 1,
}
# Kinds that leave their aggregate as it is: several may share a revision, beside the event that changes it.
NOTES: Final = frozenset({"superseded"})

# As confluent-kafka and aiokafka give them, or as a mapping; None for a message without.
Headers: TypeAlias = Mapping[str, "str | bytes | None"] | Sequence[tuple[str, "str | bytes | None"]]

_MOST: Final = 2**63 - 1
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


class MalformedEvent(ValueError):
    """Bytes that are no event of assay. The sentence says what is wrong and holds nothing of the message."""


@dataclass(frozen=True, slots=True)
class ConsumedEvent:
    """One event. `data` is what its kind and schema version say, see docs/events; decimals are `Decimal`.

    (`epoch`, `revision`) orders the events of an aggregate. `body` is the message's value as it came.
    """

    event_id: UUID
    kind: str
    schema: int
    aggregate_kind: str
    aggregate_id: str
    revision: int
    epoch: int
    occurred_at: datetime
    data: Mapping[str, Any] = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: str = field(default="", repr=False)

    @property
    def is_known(self) -> bool:
        """Whether this release knows the kind and its schema version. Skip what you do not know."""
        return 1 <= self.schema <= KNOWN.get(self.kind, 0)

    @property
    def is_note(self) -> bool:
        """Whether the event leaves its aggregate's revision as it is, see `NOTES`."""
        return self.kind in NOTES


def parse(value: bytes | str | None, headers: Headers | None = None) -> ConsumedEvent:
    """The event in a message's value. Fields and kinds of later releases pass.

    `headers` are those of the message; where they name an event they must name this one. Raises
    `MalformedEvent`.
    """
    text = _decoded(value)
    body = _object(text)
    aggregate = _member(body, "aggregate", dict)
    event = ConsumedEvent(
        event_id=_uuid(_member(body, "event_id", str)),
        kind=_text(body, "kind"),
        schema=_number(body, "schema", 1),
        aggregate_kind=_text(aggregate, "kind"),
        aggregate_id=_text(aggregate, "id"),
        revision=_number(body, "revision", 1),
        epoch=_number(body, "epoch", 0),
        occurred_at=_moment(_member(body, "occurred_at", str)),
        data=_member(body, "data", dict),
        headers=_headers(headers),
        body=text,
    )
    told = event.headers.get("ce_id")
    if told is not None and told != str(event.event_id):
        raise MalformedEvent("The header ce_id names another event than the message's value.")
    return event


def _decoded(value: bytes | str | None) -> str:
    if value is None:
        raise MalformedEvent("The message has no value; assay writes no tombstones.")
    try:
        return value.decode("utf-8") if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        raise MalformedEvent("The message's value is not UTF-8.") from None


def _object(text: str) -> dict[str, Any]:
    try:
        body = json.loads(text, parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_once)
    except (json.JSONDecodeError, RecursionError):
        raise MalformedEvent("The message's value is not JSON.") from None
    except MalformedEvent:
        raise
    except ValueError:
        raise MalformedEvent("The message's value holds a number that is too long.") from None
    if not isinstance(body, dict):
        raise MalformedEvent("The message's value is no JSON object.")
    return body


def _refuse(_: str) -> NoReturn:
    raise MalformedEvent("The message's value is not JSON.")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MalformedEvent("The message's value names a field twice.")
    return found


def _member(body: Mapping[str, Any], name: str, kind: type) -> Any:
    value = body.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise MalformedEvent(f"The field {name} is missing or has the wrong type.")
    return value


def _text(body: Mapping[str, Any], name: str) -> str:
    value: str = _member(body, name, str)
    # What PostgreSQL cannot store the inbox cannot keep: NUL, lone surrogates.
    if not value or _UNSTORABLE.search(value):
        raise MalformedEvent(f"The field {name} is empty or holds what is no text.")
    return value


def _number(body: Mapping[str, Any], name: str, least: int) -> int:
    value: int = _member(body, name, int)
    if not least <= value <= _MOST:
        raise MalformedEvent(f"The field {name} is out of range.")
    return value


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise MalformedEvent("The field event_id is no UUID.") from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise MalformedEvent("The field occurred_at is no RFC 3339 time.") from None
    if moment.tzinfo is None:
        raise MalformedEvent("The field occurred_at has no time zone.")
    return moment


def _headers(headers: Headers | None) -> dict[str, str]:
    pairs: Iterable[tuple[str, str | bytes | None]]
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    return {
        name.lower(): value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for name, value in pairs
        if value is not None
    }
