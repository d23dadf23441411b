"""Every decision record is listed in the index of decisions."""

from __future__ import annotations

from pathlib import Path


def problems(root: Path) -> list[str]:
    """One sentence per record that the index does not link."""
    folder = root / "docs" / "decisions"
    index = folder / "README.md"
    if not index.is_file():
        return ["docs/decisions/README.md: the index of decisions is missing"]
    listed = index.read_text("utf-8")
    return [
        f"docs/decisions/{record.name}: not listed in docs/decisions/README.md"
        for record in sorted(folder.glob("*.md"))
        if record.name != "README.md" and f"({record.name})" not in listed
    ]
