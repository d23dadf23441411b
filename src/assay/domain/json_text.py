"""A strict reader of JSON text (RFC 8259) that keeps what ordinary readers lose.

Number literals stay text (`Number`), so that no digit is lost and no huge integer is computed. Duplicate
keys are found on decoded keys. There are two readers: the standard library's C scanner for ordinary text,
and an iterative one for deep nesting, where recursion would end the process or the answer. They agree, and
a property test says so. Neither builds anything that has to be walked or freed recursively by us.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final, NamedTuple, NoReturn, TypeAlias

# Nesting up to here goes to the C scanner; far below any recursion limit, with room for callers.
SAFE_DEPTH: Final = 200


class Number(str):
    """A JSON number as it was written."""

    __slots__ = ()


Json: TypeAlias = "bool | str | Number | list[Json] | dict[str, Json] | None"


class JsonInvalid(Exception):
    """The text is not exactly one JSON value. Carries nothing of the text."""


class DuplicateKey(Exception):
    """Well-formed JSON in which an object has one key twice. `path`: raw keys and indexes of that object;
    they are data, and a caller must not show them."""

    def __init__(self, path: tuple[str | int, ...]) -> None:
        super().__init__("one key twice in one object")
        self.path = path


class _Twice(Exception):
    """Raised inside the C scanner; the iterative reader then decides between invalid and duplicate."""


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _Twice
    return result


def _refuse_constant(_name: str) -> NoReturn:
    raise JsonInvalid


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=Number, parse_int=Number, parse_constant=_refuse_constant
)
_NOT_BRACKETS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[^\[\]{}"]++', re.DOTALL)
_SPACE: Final = re.compile(r"[ \t\n\r]*+")


def read_json(text: str) -> Json:
    """The one JSON value that `text` is.

    Raises `JsonInvalid` when it is not exactly one value (a byte-order mark, NaN and anything after the
    value included), `DuplicateKey` when it is one but an object repeats a key. Linear in time and without
    recursion, at any nesting.
    """
    if is_deep(text):
        return read_iteratively(text)
    try:
        value: Json = _DECODER.decode(text)
    except (_Twice, RecursionError):
        return read_iteratively(text)
    except ValueError:
        raise JsonInvalid from None
    return value


def is_deep(text: str, bound: int = SAFE_DEPTH) -> bool:
    """Whether brackets nest deeper than `bound` outside strings.

    Raises `JsonInvalid` when it has to count and not every bracket that opens is closed: a cheap answer for
    a long text of opening brackets alone.
    """
    if text.count("[") + text.count("{") <= bound:
        return False
    depth = deepest = 0
    for bracket in _NOT_BRACKETS.sub("", text):
        if bracket in "[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    if depth:
        raise JsonInvalid
    return deepest > bound


class _Open(NamedTuple):
    """A container that is being read; `key` and `seen` serve objects alone."""

    container: list[Json] | dict[str, Json]
    key: list[str]


def _path(stack: Sequence[_Open]) -> tuple[str | int, ...]:
    """Where the innermost open container is."""
    return tuple(
        opened.key[0] if isinstance(opened.container, dict) else len(opened.container)
        for opened in stack[:-1]
    )


class _Reader:
    """The iterative reader: one step per value, an explicit stack of open containers."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.stack: list[_Open] = []
        self.duplicate: tuple[str | int, ...] | None = None

    def next_char(self) -> str:
        """The next character that is not white space, not consumed; "" at the end."""
        match = _SPACE.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return self.text[self.at : self.at + 1]

    def scalar(self) -> Json:
        try:
            value: Json
            value, self.at = _DECODER.raw_decode(self.text, self.at)
        except ValueError:
            raise JsonInvalid from None
        return value

    def expect(self, char: str) -> None:
        if self.next_char() != char:
            raise JsonInvalid
        self.at += 1

    def read_key(self) -> None:
        """Reads `"key" :` of the innermost object."""
        if self.next_char() != '"':
            raise JsonInvalid
        key = self.scalar()
        self.expect(":")
        opened = self.stack[-1]
        if isinstance(key, str):
            if key in opened.container and self.duplicate is None:
                self.duplicate = _path(self.stack)
            opened.key[0] = key

    def open_or_scalar(self) -> tuple[bool, Json]:
        """Reads a scalar or an empty container (True, value), or opens a container (False, None)."""
        char = self.next_char()
        if char not in ("[", "{"):
            return True, self.scalar()
        self.at += 1
        container: list[Json] | dict[str, Json] = [] if char == "[" else {}
        if self.next_char() == ("]" if char == "[" else "}"):
            self.at += 1
            return True, container
        self.stack.append(_Open(container, [""]))
        if char == "{":
            self.read_key()
        return False, None

    def place(self, value: Json) -> tuple[bool, Json]:
        """Puts a finished value into its container; (True, container) when that one is finished too."""
        opened = self.stack[-1]
        if isinstance(opened.container, list):
            opened.container.append(value)
            closing = "]"
        else:
            opened.container[opened.key[0]] = value
            closing = "}"
        char = self.next_char()
        self.at += 1
        if char == closing:
            self.stack.pop()
            return True, opened.container
        if char != ",":
            raise JsonInvalid
        if closing == "}":
            self.read_key()
        return False, None

    def read(self) -> Json:
        while True:
            done, value = self.open_or_scalar()
            while done and self.stack:
                done, value = self.place(value)
            if done:
                break
        if self.next_char():
            raise JsonInvalid
        if self.duplicate is not None:
            raise DuplicateKey(self.duplicate)
        return value


def read_iteratively(text: str) -> Json:
    """`read_json` by the iterative reader, whatever the nesting."""
    return _Reader(text).read()
