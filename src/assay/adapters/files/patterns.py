"""What `--input` names: files, patterns and standard input, as paths in a fixed order."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from assay.domain.failures import ConfigurationError

STANDARD_INPUT: Final = "-"


def expand(inputs: Sequence[str], *, source_name: str | None = None) -> list[str]:
    """The files that `inputs` name: in the order given, those of one pattern sorted, each once.

    A name is a pattern where no file has it. `**` stands for folders at any depth; hidden files are not
    matched by `*`. Raises `ConfigurationError` for a pattern without a match, a directory, two files of one
    name (their records would have the same ids), and one name given for several files.
    """
    found: dict[str, str] = {}
    for given in inputs:
        for path in _files_of(given):
            found.setdefault(path if path == STANDARD_INPUT else os.path.realpath(path), path)
    paths = list(found.values())
    if source_name is not None and len(paths) > 1:
        raise ConfigurationError(
            f"--source-name is for one file, and there are {len(paths)}; run them one by one."
        )
    for name, count in Counter(Path(path).name for path in paths).items():
        if count > 1:
            raise ConfigurationError(
                f"{count} files are named {name}, so their records would get the same ids; rename them, or "
                "run them one by one with --source-name."
            )
    return paths


def _files_of(given: str) -> list[str]:
    if given == STANDARD_INPUT or not glob.has_magic(given) or os.path.lexists(given):
        if os.path.isdir(given):
            raise ConfigurationError(
                f"{given} is a directory; name a file in it, or a pattern: '{given.rstrip('/')}/*.jsonl'."
            )
        return [given]
    matches = [path for path in sorted(glob.glob(given, recursive=True)) if not os.path.isdir(path)]
    if not matches:
        raise ConfigurationError(f"No file matches {given}; check the pattern and its folder.")
    return matches
