"""Reads Kubernetes manifests: the part of YAML that ours are written in, and an error for anything else."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

Node = dict[str, "Node"] | list["Node"] | str | int | bool | None

_KEY = re.compile(r"^([A-Za-z0-9_./-]+):(?: (.+))?$")
_NO_PLAIN = re.compile(r"^[{}&*!|>'%@`]|: | #|:$")


class NotReadError(ValueError):
    """A line that this reader does not know."""


@dataclass(frozen=True)
class _Line:
    number: int
    indent: int
    text: str


def read_manifests(text: str) -> list[dict[str, Node]]:
    """The documents, each a mapping. Raises `NotReadError` for tabs, doubled keys and odd indents."""
    documents: list[list[_Line]] = [[]]
    for number, line in enumerate(text.splitlines(), 1):
        if "\t" in line:
            raise NotReadError(f"line {number}: a tab")
        if line == "---":
            documents.append([])
        elif line.strip() and not line.lstrip().startswith("#"):
            documents[-1].append(_Line(number, len(line) - len(line.lstrip(" ")), line.strip()))
    found = []
    for lines in documents:
        node, rest = _block(lines, 0)
        if rest or not isinstance(node, dict):
            raise NotReadError(f"line {rest[0].number if rest else 1}: not a mapping")
        found.append(node)
    return found


def _block(lines: list[_Line], indent: int) -> tuple[Node, list[_Line]]:
    if not lines or lines[0].indent < indent:
        return None, lines
    own = lines[0].indent
    return (_sequence if lines[0].text.startswith("- ") else _mapping)(lines, own)


def _mapping(lines: list[_Line], indent: int) -> tuple[Node, list[_Line]]:
    found: dict[str, Node] = {}
    while lines and lines[0].indent == indent and not lines[0].text.startswith("- "):
        line, lines = lines[0], lines[1:]
        match = _KEY.match(line.text)
        if match is None or match[1] in found:
            raise NotReadError(f"line {line.number}: {line.text}")
        if match[2] is None:
            found[match[1]], lines = _block(lines, indent + 1)
        else:
            found[match[1]] = _value(match[2], line)
    return _ended(found, lines, indent)


def _sequence(lines: list[_Line], indent: int) -> tuple[Node, list[_Line]]:
    found: list[Node] = []
    while lines and lines[0].indent == indent and lines[0].text.startswith("- "):
        line, lines = lines[0], lines[1:]
        item = line.text[2:]
        if _KEY.match(item):
            # A mapping that begins beside its dash.
            value, lines = _mapping([_Line(line.number, indent + 2, item), *lines], indent + 2)
        else:
            value = _value(item, line)
        found.append(value)
    return _ended(found, lines, indent)


def _ended(found: Node, lines: list[_Line], indent: int) -> tuple[Node, list[_Line]]:
    if lines and lines[0].indent > indent:
        raise NotReadError(f"line {lines[0].number}: indented too far")
    return found, lines


def _value(text: str, line: _Line) -> Node:
    if text.startswith(("[", '"')) or text in {"true", "false"} or text.isdecimal():
        read: Node = json.loads(text)
        return read
    if _NO_PLAIN.search(text):
        raise NotReadError(f"line {line.number}: {text}")
    return text
