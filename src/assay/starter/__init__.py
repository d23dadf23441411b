"""The files that `assay init` puts into a new project, as they are; the pipeline runs where it lies."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib.resources import files
from types import MappingProxyType
from typing import Final


class Example(StrEnum):
    """What a project may start from."""

    TICKETS = "tickets"
    RECEIPTS = "receipts"


# Name in the project: name in this package. A `.gitignore` here would rule this folder.
NAMES: Final[Mapping[Example, Mapping[str, str]]] = MappingProxyType(
    {
        example: {
            f"{example}.py": f"{example}.py",
            f"{example}.md": f"{example}.md",
            f"{example}.jsonl": f"{example}.jsonl",
            "README.md": readme,
            ".gitignore": "gitignore",
        }
        for example, readme in {Example.TICKETS: "README.md", Example.RECEIPTS: "receipts_readme.md"}.items()
    }
)


def starter_files(model: str | None = None, example: Example = Example.TICKETS) -> dict[str, str]:
    """Text by file name. `model` takes the place of the recorded answers."""
    texts = {name: (files(__name__) / own).read_text("utf-8") for name, own in NAMES[example].items()}
    if model is not None:
        pipeline = f"{example}.py"
        texts[pipeline] = texts[pipeline].replace(f'"recorded:{example}.jsonl#answer"', f'"{model}"')
    return texts
