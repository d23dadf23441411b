"""The server's log file: its size kept in bounds, its last words for an error message."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import IO

from assay.adapters.embedded.state import Places

_TAIL = 8_192
_FULL_DISK_BYTES = 1_000_000
_PREFIX = re.compile(r"^.*UTC \[\d+\] ")


def open_log(places: Places) -> IO[bytes]:
    """The log, for programs to append to."""
    return os.fdopen(os.open(places.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab")


def bound(log: Path, limit: int) -> None:
    """Move the log's content to `<name>.1` once it is over `limit` bytes.

    The file itself stays: running programs append to it through descriptors that cannot be replaced.
    """
    try:
        if log.stat().st_size <= limit:
            return
    except FileNotFoundError:
        return
    previous = log.with_name(f"{log.name}.1")
    previous.touch(mode=0o600)
    shutil.copyfile(log, previous)
    with log.open("r+b") as file:
        file.truncate(0)


def length(log: Path) -> int:
    """The log's size in bytes, 0 when it is missing."""
    try:
        return log.stat().st_size
    except FileNotFoundError:
        return 0


def last_words(log: Path, since: int = 0) -> str:
    """The line after byte `since` that says most about a failure: the last FATAL or error, else the last."""
    try:
        with log.open("rb") as file:
            file.seek(max(since, length(log) - _TAIL))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [
        line for line in lines if any(word in line for word in ("FATAL:", "PANIC:", "error:", "ERROR:"))
    ]
    return _PREFIX.sub("", (telling or lines or [""])[-1])


def failure_sentence(places: Places, words: str) -> str:
    """One sentence about a server that did not start; `words` are its log's last."""
    full = shutil.disk_usage(places.folder).free < _FULL_DISK_BYTES
    reason = "its disk is full" if full else words.rstrip(".")
    return (
        f"The embedded database could not start ({reason}): mend that, see {places.log.absolute()}, "
        "or set ASSAY_DATABASE_URL to a server of your own."
    )
