"""Commands that the documents show exist: make targets, assay commands and their options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from markdown_text import read_page
from tracked_files import tracked_files

_TARGET = re.compile(r"^([a-z][a-z0-9-]*):", re.MULTILINE)
_MAKE = re.compile(r"^make((?:\s+[a-z][a-z0-9-]*(?![\w=./]))*)")
_ASSAY = re.compile(r"^(?:\.venv/bin/)?assay(?=\s|$)((?:\s+[a-z][a-z-]*(?![\w=./:-]))*)(.*)")
_OPTION = re.compile(r"(?<!\S)(--[a-z][a-z-]*)")


def problems(root: Path) -> list[str]:
    """One sentence per command of a document that does not exist."""
    makefile = root / "Makefile"
    targets = set(_TARGET.findall(makefile.read_text("utf-8"))) if makefile.is_file() else set()
    found: list[str] = []
    for page in tracked_files(root):
        if page.suffix != ".md":
            continue
        for number, line in read_page(page.read_text("utf-8")).commands():
            place = f"{page.relative_to(root)}:{number}"
            found += [f"{place}: {problem}" for problem in _command_problems(line, targets)]
    return found


def _command_problems(line: str, targets: set[str]) -> list[str]:
    if match := _MAKE.match(line):
        return [f"make has no target {word}" for word in match[1].split() if word not in targets]
    match = _ASSAY.match(line)
    if match and line != "assay":  # alone, it is the product's name
        words = tuple(match[1].split())[:2]
        text = _help(words)
        if text is None:
            return [f"there is no command: assay {' '.join(words)}"]
        # What follows a pipe or a comment is another command's.
        shown = re.split(r"\s[|#>&]|;", line)[0]
        return [
            f"assay {' '.join(words)} has no option {option}"
            for option in _OPTION.findall(shown)
            if not re.search(rf"(?<![\w-]){option}(?![\w-])", text)
        ]
    return []


@cache
def _help(words: tuple[str, ...]) -> str | None:
    """The help of a command, or None where there is no such command. --help wins over missing arguments."""
    program = Path(sys.executable).with_name("assay")
    answer = subprocess.run(
        [str(program), *words, "--help"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"},
    )
    return answer.stdout if answer.returncode == 0 else None
