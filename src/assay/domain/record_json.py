"""A record as a JSON object: found by a mapping, never guessed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NoReturn

from assay.domain.record_mapping import ATTRIBUTE_NAMES, column_of
from assay.domain.records import ABSENT, FieldValue, Piece, Refused


class _DuplicateKey(ValueError):
    """Two honest parsers would read such an object differently."""


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _DuplicateKey
    return made


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant).decode
_decode_huge = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_int=float).decode


def parse_object(raw: bytes) -> dict[str, object]:
    """The one JSON object on a line. Raises `Refused` for anything else."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("not_utf8") from None
    try:
        value = _parse(text)
    except (ValueError, RecursionError):
        raise Refused("not_json") from None
    if not isinstance(value, dict):
        raise Refused("not_an_object")
    return value


def _parse(text: str) -> object:
    try:
        value: object = _decode(text)
    except (json.JSONDecodeError, _DuplicateKey):
        raise
    except ValueError:
        # An integer longer than the interpreter converts is JSON all the same; NaN fails here as well.
        value = _decode_huge(text)
    return value


class ObjectFields:
    """Finds the fields of a record in an object, by the mapping.

    A key is one of the object's own; where there is none and the name starts with "/", it is read as a
    JSON Pointer into nested objects.
    """

    def __init__(self, mapping: Mapping[str, str], *, documents: bool = False) -> None:
        self._document_ref = column_of(mapping, "document_ref") if documents else ()
        self._text = column_of(mapping, "text")
        self._record_id = column_of(mapping, "record_id")
        self._demanded_id = bool(mapping.get("record_id"))
        self._version = column_of(mapping, "input_version")
        self._attributes = tuple(
            (name, keys) for name in ATTRIBUTE_NAMES if (keys := column_of(mapping, name))
        )

    def piece(self, value: Mapping[str, object], row: int) -> Piece:
        """The fields of `value`. A mapped record id that is not there is null, never the row."""
        record_id = look_up(value, self._record_id)
        if record_id is ABSENT and self._demanded_id:
            record_id = None
        found = ((name, look_up(value, keys)) for name, keys in self._attributes)
        return Piece(
            row,
            look_up(value, self._text),
            record_id,
            look_up(value, self._version),
            tuple((name, item) for name, item in found if item is not ABSENT),
            look_up(value, self._document_ref),
        )


def look_up(value: Mapping[str, object], keys: tuple[str, ...]) -> FieldValue:
    """The value of the first key that is there, else `ABSENT`."""
    for key in keys:
        if key in value:
            return value[key]
        if key.startswith("/"):
            return _follow(value, key)
    return ABSENT


def _follow(value: object, pointer: str) -> FieldValue:
    for token in pointer[1:].split("/"):
        name = token.replace("~1", "/").replace("~0", "~")
        if not isinstance(value, dict) or name not in value:
            return ABSENT
        value = value[name]
    return value
