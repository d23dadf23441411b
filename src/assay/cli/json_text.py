"""JSON as commands print it: UTF-8, fields in the order given, numbers exactly as the database has them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from json.encoder import encode_basestring as quoted
from uuid import UUID

from assay.domain.json_text import Number


def to_json(value: object) -> str:
    """JSON text on one line. Decimals are numbers, times ISO 8601, dataclasses objects."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{quoted(str(k))}: {to_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence | Set) and not isinstance(value, str | bytes):
        return "[" + ", ".join(map(to_json, value)) + "]"
    if is_dataclass(value):
        return to_json({item.name: getattr(value, item.name) for item in fields(value)})
    return _scalar(value)


def _scalar(value: object) -> str:
    match value:
        case Number():
            return str.__str__(value)
        case str():
            return quoted(str.__str__(value))
        case None | bool() | int() | float():
            return json.dumps(value, allow_nan=False)
        case Decimal():
            return f"{value:f}"
        case datetime():
            return quoted(value.isoformat())
        case UUID():
            return quoted(str(value))
    raise TypeError(f"{type(value).__name__} has no JSON")
