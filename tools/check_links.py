"""Relative links in Markdown pages lead to a file, and their anchors to a heading."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from markdown_text import read_page
from tracked_files import tracked_files

_LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
_ABSOLUTE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def problems(root: Path) -> list[str]:
    """One sentence per broken link."""
    found: list[str] = []
    for page in tracked_files(root):
        if page.suffix != ".md":
            continue
        for number, line in read_page(page.read_text("utf-8")).prose:
            place = f"{page.relative_to(root)}:{number}"
            found += [
                f"{place}: link to {target} {reason}"
                for target in _LINK.findall(line)
                if not _ABSOLUTE.match(target) and (reason := _broken(page, target))
            ]
    return found


def _broken(page: Path, target: str) -> str | None:
    name, _, anchor = unquote(target).partition("#")
    destination = page.parent / name if name else page
    if not destination.exists():
        return "leads nowhere"
    if not anchor or destination.suffix != ".md":
        return None
    known = read_page(destination.read_text("utf-8")).anchors()
    return None if anchor in known else "names a heading that is not there"
