"""Tickets for the product to label: JSON lines of 300 to 500 bytes, the same on every machine."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final

_WORDS: Final = (
    "invoice", "order", "parcel", "charge", "refund", "router", "login", "password", "crash",
    "screen", "delay", "receipt", "account", "tariff", "address", "courier", "update", "battery",
    "reset", "cancel", "payment", "missing", "twice", "week", "again", "support", "please",
    "phone",
)  # fmt: skip


def record_id(number: int, *, ordered: bool) -> str:
    """The identity of record number n: in order of arrival, or spread over the whole index."""
    if ordered:
        return f"ticket-{number:09d}"
    return f"ticket-{hashlib.sha256(str(number).encode()).hexdigest()[:16]}"


def ticket(number: int, *, ordered: bool = True) -> tuple[str, bytes]:
    """The identity of ticket number n, and the ticket as JSON."""
    drawn = hashlib.shake_128(str(number).encode()).digest(67)
    words = " ".join(_WORDS[byte % len(_WORDS)] for byte in drawn[: 40 + drawn[-1] % 27])
    row = {"record_id": record_id(number, ordered=ordered), "text": f"Ticket {number}: {words}."}
    return row["record_id"], json.dumps(row).encode()


def write_records(path: Path, count: int, *, first: int = 0, ordered: bool = True) -> None:
    """Write `count` tickets, numbered from `first`."""
    with path.open("wb") as file:
        for number in range(first, first + count):
            file.write(ticket(number, ordered=ordered)[1] + b"\n")
