"""Nothing in the repository names one machine, a package registry or a tracker's numbers."""

from __future__ import annotations

import re
from pathlib import Path

from tracked_files import tracked_files

# Brackets keep each pattern from matching its own line.
_FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.])/(?:[w]ork|[r]oot|[f]arm|[h]ome/\w+|[U]sers/\w+)/"),
    "a registry's host": re.compile(
        r"\b(?:p[y]pi\.(?:org|io)|pythonh[o]sted\.|registry\.npm[j]s|repo1?\.m[a]ven|deb\.d[e]bian|"
        r"https?://[^ ]*(?:p[y]pi|pythonh[o]sted|npm[j]s|d[e]bian|m[a]ven)\.)"
    ),
    "a tracker's number": re.compile(r"\b(?:[i]ssues?|[P]R|[p]ull request|[G]H-)\s?#?\d+\b", re.IGNORECASE),
    "an unfinished mark": re.compile(r"\b(?:T[O]DO|F[I]XME|X[X]X|NotI[m]plementedError)\b"),
    "a silenced check": re.compile(r"(?:type: i[g]nore|n[o]qa\b|pragma: no c[o]ver)"),
}
_DATA = {".csv", ".jsonl", ".png", ".svg", ".parquet", ".bin", ".gz"}


def problems(root: Path) -> list[str]:
    """One sentence per line that says what the repository must not say."""
    found: list[str] = []
    for file in tracked_files(root):
        if file.suffix in _DATA:
            continue
        lines = file.read_text("utf-8", errors="replace").splitlines()
        found += [
            f"{file.relative_to(root)}:{number}: {what}"
            for number, line in enumerate(lines, start=1)
            for what, pattern in _FORBIDDEN.items()
            if pattern.search(line)
        ]
    return found
