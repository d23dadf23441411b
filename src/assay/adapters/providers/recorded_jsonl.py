"""Answers in a JSONL file."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from assay.adapters.providers.recorded_rows import MAX_COLUMNS_NAMED, Cell, RowStart, missing_column


class Member(NamedTuple):
    """A member of a JSON object: its value, and the text of it exactly as written."""

    value: object
    raw: str


_WHITE_SPACE: Final = re.compile(r"[ \t\n\r]*")
# Numbers are kept as written in `raw`; converting them could fail (huge integers) for nothing.
_decoder: Final = json.JSONDecoder(parse_int=float, parse_float=float)


class JsonlRows:
    """One JSON object per line. Rows are physical lines, as the file source numbers them; a line that holds
    no object has no answer."""

    def __init__(self, file: BinaryIO, file_name: str, column: str, id_columns: tuple[str, ...]) -> None:
        self._file = file
        self._file_name = file_name
        self._needed = (column, id_columns[0]) if len(id_columns) == 1 else (column,)
        self._id_columns = id_columns
        self._end = 0

    @property
    def end(self) -> int:
        return self._end

    def scan(self) -> Iterator[RowStart]:
        columns: dict[str, None] = {}
        for line in self._file:
            start, self._end = self._end, self._end + len(line)
            members = json_members(line)
            if len(columns) <= MAX_COLUMNS_NAMED or not columns.keys() >= set(self._needed):
                columns.update(dict.fromkeys(members))
            yield RowStart(start, self._id(members))
        for name in self._needed:
            if name not in columns:
                raise missing_column(self._file_name, name, list(columns))

    def cell(self, raw: bytes, column: str) -> Cell | None:
        member = json_members(raw.split(b"\n", 1)[0]).get(column)
        if member is None or member.value is None:
            return None
        if isinstance(member.value, str):
            return Cell(member.value)
        return Cell(member.raw, json_scalar=not isinstance(member.value, dict | list))

    def record_id(self, raw: bytes) -> str | None:
        return self._id(json_members(raw.split(b"\n", 1)[0]))

    def _id(self, members: dict[str, Member]) -> str | None:
        for name in self._id_columns:
            member = members.get(name)
            if member is not None and isinstance(member.value, str):
                return member.value
            if member is not None and isinstance(member.value, float):
                return member.raw
        return None


def json_members(line: bytes) -> dict[str, Member]:
    """The members of the JSON object in a line, each with its exact text; empty for anything else."""
    try:
        text = line.removeprefix(codecs.BOM_UTF8).decode("utf-8")
        return _members(text)
    except (ValueError, RecursionError, IndexError):
        return {}


def _members(text: str) -> dict[str, Member]:
    members: dict[str, Member] = {}
    position = _expect(text, 0, "{")
    if text[position] == "}":
        return members
    while True:
        name, position = _decoder.raw_decode(text, position)
        if not isinstance(name, str):
            raise ValueError
        start = _expect(text, _skip(text, position), ":")
        value, end = _decoder.raw_decode(text, start)
        members[name] = Member(value, text[start:end])
        position = _skip(text, end)
        if text[position] == "}":
            break
        position = _expect(text, position, ",")
    if _skip(text, position + 1) != len(text):
        raise ValueError
    return members


def _expect(text: str, position: int, mark: str) -> int:
    """The position after `mark` and the white space around it."""
    position = _skip(text, position)
    if text[position] != mark:
        raise ValueError
    return _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    match = _WHITE_SPACE.match(text, position)
    return position if match is None else match.end()
