"""Reads a provider's JSON envelope without trusting it: unknown fields pass, odd values become None."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Final

MAX_LABEL_CHARS: Final = 256
_MAX_COUNT: Final = 2**62

# Longer integers would raise (the interpreter bounds the conversion); as a float they are merely useless.
_MAX_INTEGER_CHARS: Final = 64


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= _MAX_INTEGER_CHARS else float(text)


_decoder: Final = json.JSONDecoder(parse_int=_integer)


def parse_json(body: bytes) -> object | None:
    """The JSON value in `body`, or None where there is none (a JSON null is None too). Never raises."""
    try:
        text = body.decode(json.detect_encoding(body), "surrogatepass")
        value: object = _decoder.decode(text)
    except (ValueError, RecursionError):
        return None
    return value


def first(value: object) -> object:
    """The first element of a list, anything else as it is: some gateways wrap errors in a list."""
    if isinstance(value, list):
        return value[0] if value else None
    return value


def text_field(value: object) -> str | None:
    """A short printable name (model, code, finish reason), else None: it will be stored and shown."""
    if isinstance(value, str) and 0 < len(value) <= MAX_LABEL_CHARS and value.isprintable():
        return value
    return None


def count_field(value: object) -> int | None:
    """A number of tokens: a whole number of 0 or more, else None."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    if type(value) is int and 0 <= value <= _MAX_COUNT:
        return value
    return None


def detail(usage: Mapping[str, object], group: str, name: str) -> int | None:
    """A number of tokens in a group of a usage object, else None."""
    details = usage.get(group)
    return count_field(details.get(name)) if isinstance(details, Mapping) else None
