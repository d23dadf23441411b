"""The vendor's own record of its calls: one JSON line per call, and counts.

A client may be killed in the middle of a call. The vendor did the work, so the call is counted and has its
line all the same; tests compare these lines with what the product believes it called.
No line holds a text, only its hash.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final, Literal, TypeAlias

from assay.vendor.gold import JsonObject
from assay.vendor.settings import VendorSettingsError

Outcome: TypeAlias = Literal["replied", "refused", "client_gone", "vendor_stopped", "failed"]


@dataclass(slots=True)
class Entry:
    """One call. Lines are written when a call ends; `sequence` counts arrivals within one run of the vendor.

    `status` is the HTTP status handed to the socket, null where the client had gone; `fault` what was done
    to the reply; `turn` how often the text was asked about before; `outcome` replied, refused (400, 401, 404,
    413), client_gone, vendor_stopped, or failed (a defect here). Tokens are what the vendor would bill.
    """

    run: str
    sequence: int
    time: str
    idempotency_key: str | None
    request_id: str
    seconds: float = 0.0
    model: str | None = None
    status: int | None = None
    fault: str | None = None
    outcome: Outcome = "failed"
    finish_reason: str | None = None
    wrong: bool | None = None
    found: str | None = None
    turn: int | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    text_sha256: str | None = None


_FIELDS: Final = tuple(one.name for one in fields(Entry))


class SeenKeys:
    """Counts per key with bounded memory: the oldest half is forgotten when the bound is reached."""

    __slots__ = ("_half", "_new", "_old")

    def __init__(self, bound: int) -> None:
        self._half = bound // 2
        self._new: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}

    def add(self, key: bytes) -> int:
        """Count the key once more; returns how often it was seen before."""
        before = self.count(key)
        self._new[key] = before + 1
        if len(self._new) >= self._half:
            self._old, self._new = self._new, {}
        return before

    def count(self, key: bytes) -> int:
        """How often the key was seen."""
        return self._new.get(key) or self._old.get(key, 0)


@dataclass(slots=True)
class Stats:
    """Counts since the start; `repeated_keys` came more than once, with `repeated_calls` calls too many."""

    calls: int = 0
    ended: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    wrong_answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    distinct_keys: int = 0
    repeated_keys: int = 0
    repeated_calls: int = 0
    without_key: int = 0
    by_status: Counter[str] = field(default_factory=Counter)
    by_fault: Counter[str] = field(default_factory=Counter)
    by_outcome: Counter[str] = field(default_factory=Counter)
    by_lookup: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> JsonObject:
        """The counts as a JSON object with these names."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in values.items()}


class Journal:
    """Writes entries and keeps the counts that `GET /practice/stats` shows. Belongs to one event loop."""

    def __init__(self, path: Path | None, remembered_keys: int) -> None:
        self.stats = Stats()
        self._keys = SeenKeys(remembered_keys)
        self._change: asyncio.Future[None] | None = None
        try:
            # Unbuffered and appending: one write per line, nothing to lose when this process is killed.
            self._file = None if path is None else path.open("ab", buffering=0)
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

    def ended(self, entry: Entry) -> None:
        """A call has ended: write its line and count it."""
        if self._file is not None:
            line = json.dumps({name: getattr(entry, name) for name in _FIELDS})
            self._file.write(line.encode() + b"\n")
        stats = self.stats
        stats.in_flight -= 1
        stats.ended += 1
        stats.prompt_tokens += entry.prompt_tokens
        stats.completion_tokens += entry.completion_tokens
        stats.wrong_answers += bool(entry.wrong)
        stats.by_status[str(entry.status)] += 1
        stats.by_outcome[entry.outcome] += 1
        if entry.fault is not None:
            stats.by_fault[entry.fault] += 1
        if entry.found is not None:
            stats.by_lookup[entry.found] += 1
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

    def _changed(self) -> None:
        if self._change is not None:
            self._change.set_result(None)
            self._change = None


def _key_digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
