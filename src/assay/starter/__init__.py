"""The files that `assay init` puts into a new project, as they are; `tickets.py` runs where it lies."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

# Name in the project: name in this package. A `.gitignore` here would rule this folder.
NAMES: Final = {
    "tickets.py": "tickets.py",
    "tickets.md": "tickets.md",
    "tickets.jsonl": "tickets.jsonl",
    "README.md": "README.md",
    ".gitignore": "gitignore",
}
RECORDED: Final = "recorded:tickets.jsonl#answer"


def starter_files(model: str | None = None) -> dict[str, str]:
    """Text by file name. `model` takes the place of the recorded answers."""
    texts = {name: (files(__name__) / own).read_text("utf-8") for name, own in NAMES.items()}
    if model is not None:
        texts["tickets.py"] = texts["tickets.py"].replace(f'"{RECORDED}"', f'"{model}"')
    return texts
