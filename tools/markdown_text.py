"""The parts of a Markdown page that the checks read: prose lines, headings, code."""

from __future__ import annotations

import re
from typing import NamedTuple

_FENCE = re.compile(r"^\s*(```+|~~~+)\s*([\w-]*)")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
_SPAN = re.compile(r"`([^`]+)`")
_SHELLS = {"", "sh", "bash", "shell", "console", "text"}


class Page(NamedTuple):
    """`prose` is (line number, text) outside code blocks; `shell` the same inside shell blocks."""

    prose: list[tuple[int, str]]
    shell: list[tuple[int, str]]

    def anchors(self) -> set[str]:
        """Anchors that a forge makes from the headings."""
        found: set[str] = set()
        for _, line in self.prose:
            if match := _HEADING.match(line):
                kept = re.sub(r"[^\w\- ]", "", match[1].replace("`", "").lower())
                found.add(kept.strip().replace(" ", "-"))
        return found

    def commands(self) -> list[tuple[int, str]]:
        """Shell lines without their prompt, and code spans of the prose."""
        lines = [(number, line.strip().removeprefix("$ ")) for number, line in self.shell]
        spans = [(number, span) for number, line in self.prose for span in _SPAN.findall(line)]
        return lines + spans


def read_page(text: str) -> Page:
    """Splits a page into prose and shell lines."""
    page = Page([], [])
    fence: str | None = None
    language = ""
    for number, line in enumerate(text.splitlines(), start=1):
        match = _FENCE.match(line)
        if match and fence is None:
            fence, language = match[1], match[2].lower()
        elif match and fence is not None and match[1].startswith(fence):
            fence = None
        elif fence is None:
            page.prose.append((number, line))
        elif language in _SHELLS:
            page.shell.append((number, line))
    return page
