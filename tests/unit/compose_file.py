"""Reads compose.yaml: the part of YAML that it is written in, and an error for anything else."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

Node = dict[str, "Node"] | list["Node"] | str | None

_KEY = re.compile(r"^([A-Za-z0-9_.-]+):(?: (.+))?$")
_NO_PLAIN = re.compile(r"^[\[\]{}&*!|>'\"%@`]|: | #|:$")


class NotReadError(ValueError):
    """A line that this reader does not know."""


@dataclass(frozen=True)
class _Line:
    number: int
    indent: int
    text: str


def read_compose(text: str) -> dict[str, Node]:
    """The document, a mapping. Raises `NotReadError` for tabs, doubled keys, odd indents and other YAML."""
    lines = [
        _Line(number, len(line) - len(line.lstrip(" ")), line.strip())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    node, rest = _block(lines, 0)
    if rest or not isinstance(node, dict):
        raise NotReadError(f"line {rest[0].number if rest else 1}: not a mapping")
    return node


def _block(lines: list[_Line], indent: int) -> tuple[Node, list[_Line]]:
    if not lines or lines[0].indent < indent:
        return None, lines
    return (_sequence if lines[0].text.startswith("- ") else _mapping)(lines, lines[0].indent)


def _mapping(lines: list[_Line], indent: int) -> tuple[Node, list[_Line]]:
    found: dict[str, Node] = {}
    while lines and lines[0].indent == indent:
        line, lines = lines[0], lines[1:]
        match = _KEY.match(line.text)
        if match is None or match[1] in found or "\t" in line.text:
            raise NotReadError(f"line {line.number}: {line.text}")
        if match[2] is None:
            found[match[1]], lines = _block(lines, indent + 1)
        else:
            found[match[1]], lines = _value(match[2], line, lines)
    return _ended(found, lines, indent)


def _sequence(lines: list[_Line], indent: int) -> tuple[Node, list[_Line]]:
    found: list[Node] = []
    while lines and lines[0].indent == indent and lines[0].text.startswith("- "):
        line, lines = lines[0], lines[1:]
        value, lines = _value(line.text[2:], line, lines)
        found.append(value)
    return _ended(found, lines, indent)


def _ended(found: Node, lines: list[_Line], indent: int) -> tuple[Node, list[_Line]]:
    if lines and lines[0].indent > indent:
        raise NotReadError(f"line {lines[0].number}: indented too far")
    return found, lines


def _value(text: str, line: _Line, lines: list[_Line]) -> tuple[Node, list[_Line]]:
    if text == ">-":
        folded: list[str] = []
        while lines and lines[0].indent > line.indent:
            folded.append(lines[0].text)
            lines = lines[1:]
        return " ".join(folded), lines
    if text.startswith(("[", '"')):
        read: Node = json.loads(text)
        return read, lines
    if _NO_PLAIN.search(text):
        raise NotReadError(f"line {line.number}: {text}")
    return text, lines
