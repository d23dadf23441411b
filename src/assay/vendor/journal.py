"""The vendor's own record of its calls: one JSON line per call, and counts.

A client may be killed in the middle of a call. The vendor did the work, so the call is counted and has its
line all the same; tests compare these lines with what the product believes it called.
No line holds a text, only its hash.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, fields
from decimal import Decimal
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from assay.vendor.entries import Change, Entry
from assay.vendor.errors import VendorSettingsError
from assay.vendor.gold import Json
from assay.vendor.seen_keys import SeenKeys
from assay.vendor.stats import Stats, Totals

__all__ = ["Change", "Entry", "Journal", "Stats", "read_changes", "read_journal"]

_FIELDS: Final = tuple(one.name for one in fields(Entry))
_VALUES: Final = attrgetter(*_FIELDS)
_CHANGE_FIELDS: Final = tuple(one.name for one in fields(Change))


class Journal:
    """Writes entries and keeps the counts that `GET /practice/stats` shows. Belongs to one event loop."""

    def __init__(self, path: Path | None, remembered_keys: int) -> None:
        self.stats = Stats()
        self._keys = SeenKeys(remembered_keys)
        self._change: asyncio.Future[None] | None = None
        try:
            # Unbuffered and appending: one write per line, nothing to lose when this process is killed.
            self._file = None if path is None else path.open("ab", buffering=0)
            if self._file is not None and path is not None and _ends_in_a_torn_line(path):
                self._file.write(b"\n")
        except OSError as error:
            raise VendorSettingsError(f"the journal {path} cannot be written; check --journal") from error

    def arrived(self, key: str | None) -> None:
        """A call has arrived, with the value of its Idempotency-Key header."""
        stats = self.stats
        stats.calls += 1
        stats.in_flight += 1
        stats.peak_in_flight = max(stats.peak_in_flight, stats.in_flight)
        if key is None:
            stats.without_key += 1
        else:
            before = self._keys.add(_key_digest(key))
            stats.distinct_keys += before == 0
            stats.repeated_keys += before == 1
            stats.repeated_calls += before > 0
        self._changed()

    def ended(self, entry: Entry, cost: Decimal) -> None:
        """A call has ended: write its line and count it. `cost` is 0 where nothing is billed."""
        self._write(dict(zip(_FIELDS, _VALUES(entry), strict=True)))
        stats = self.stats
        stats.in_flight -= 1
        stats.ended += 1
        stats.wrong_answers += bool(entry.wrong)
        stats.replayed += entry.kind == "replay"
        stats.by_status[str(entry.status)] += 1
        stats.by_outcome[entry.outcome] += 1
        if entry.fault is not None:
            stats.by_fault[entry.fault] += 1
        if entry.found is not None:
            stats.by_lookup[entry.found] += 1
        if entry.wire is not None:
            stats.by_wire[entry.wire] += 1
        totals = stats.totals_by_outcome.get(entry.outcome)
        if totals is None:
            totals = stats.totals_by_outcome[entry.outcome] = Totals()
        _count(totals, entry, cost)
        if entry.account is not None:
            _count(stats.account(entry.account).totals, entry, cost)
        stats.prompt_tokens += entry.prompt_tokens
        stats.cached_tokens += entry.cached_tokens
        stats.completion_tokens += entry.completion_tokens
        if entry.billed:
            stats.billed += 1
            stats.cost += cost
        self._changed()

    def changed(self, change: Change) -> None:
        """Settings have changed: write the line and count it."""
        self._write({"kind": "change", **asdict(change)})
        self.stats.changes += 1
        self._changed()

    async def until(self, holds: Callable[[Stats], bool]) -> None:
        """Wait until the counts are as asked, looking at every arrival and end."""
        while not holds(self.stats):
            if self._change is None:
                self._change = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._change)

    def calls_with_key(self, key: str) -> int:
        """How many calls carried this Idempotency-Key."""
        return self._keys.count(_key_digest(key))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _write(self, line: dict[str, object]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line).encode() + b"\n")

    def _changed(self) -> None:
        if self._change is not None:
            self._change.set_result(None)
            self._change = None


def _count(totals: Totals, entry: Entry, cost: Decimal) -> None:
    totals.calls += 1
    if entry.billed:
        totals.billed += 1
        totals.prompt_tokens += entry.prompt_tokens
        totals.cached_tokens += entry.cached_tokens
        totals.completion_tokens += entry.completion_tokens
        totals.cost += cost


def _ends_in_a_torn_line(path: Path) -> bool:
    """A machine that failed may have left half a line: what follows starts on a line of its own."""
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _key_digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def read_journal(path: Path) -> list[Entry]:
    """The calls in a journal, in the order in which they ended; changes of settings are left out.

    A torn line is skipped where a vendor's run ended. Raises VendorSettingsError naming another line that
    is none of a journal.
    """
    return [
        Entry(**{name: line[name] for name in _FIELDS if name in line})
        for line in _lines(path)
        if line.get("kind") != "change"
    ]


def read_changes(path: Path) -> list[Change]:
    """The changes of settings in a journal, in their order; otherwise as `read_journal`."""
    return [
        Change(**{name: line[name] for name in _CHANGE_FIELDS if name in line})
        for line in _lines(path)
        if line.get("kind") == "change"
    ]


def _lines(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    torn: int | None = None
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line:
            continue
        value = _parsed(line)
        if not isinstance(value, dict) or not isinstance(value.get("run"), str):
            if torn is not None:
                raise _no_journal(path, torn)
            torn = number
            continue
        if torn is not None and found and found[-1]["run"] == value["run"]:
            raise _no_journal(path, torn)
        torn = None
        found.append(value)
    return found


def _parsed(line: bytes) -> Json:
    try:
        value: Json = json.loads(line)
    except ValueError:
        return None
    return value


def _no_journal(path: Path, number: int) -> VendorSettingsError:
    return VendorSettingsError(f"{path}, line {number}: this is no line of a vendor's journal")
