"""Which files of the repository the checks look at."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

_UNTRACKED = {".git", ".venv", ".assay", "__pycache__", "dist", "build"}


def tracked_files(root: Path) -> list[Path]:
    """Files that git tracks or would track under `root`; all but the known scratch where there is no git."""
    if (root / ".git").exists():
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            capture_output=True,
            check=True,
        ).stdout
        names = [name for name in listing.decode().split("\0") if name]
        return sorted(path for name in names if (path := root / name).is_file())
    return sorted(_walk(root))


def _walk(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name in _UNTRACKED or entry.name.endswith("_cache") or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from _walk(entry)
        else:
            yield entry
