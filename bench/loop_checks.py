"""What must be true after a run of the whole loop, or its rate says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.broker import Broker
from bench.checks import Expected, broken, faults
from bench.children import Figures
from bench.server import Database

_WAITING: Final = "SELECT count(*) FROM assay.outbox_events"
_RECEIPTS: Final = "SELECT count(*) FROM assay.outbox_receipts"
_OFFSETS: Final = "SELECT coalesce(sum(committed_offset), 0)::bigint FROM assay.source_checkpoints"
_FINISHED: Final = "SELECT count(*) FROM task WHERE status = 2"
_LEFT: Final = "SELECT count(*) FROM outbox"


def loop_faults(
    database: Database, broker: Broker, records: int, answers: Sequence[tuple[str, Figures]], what: str
) -> list[str]:
    """The product: every record settled, every event with a receipt and read back once, every offset
    committed in PostgreSQL and at the broker; the audit."""
    read, distinct = broker.events("event_id", records)
    found = {
        "events acknowledged": int(sum(figures.get("acknowledged", 0.0) for _, figures in answers)),
        "receipts": database.count(_RECEIPTS),
        "events read back": read,
        "different events read back": distinct,
        "offsets committed in PostgreSQL": database.count(_OFFSETS),
        "offsets committed at the broker": broker.committed(),
    }
    wrong = _differing(found, records, what) + _differing(
        {"events waiting": database.count(_WAITING)}, 0, what
    )
    return wrong + faults(database, Expected(records), what) + broken(database, what)


def bare_faults(database: Database, broker: Broker, records: int, left: int, what: str) -> list[str]:
    """The others: every record finished, every event read back once, every offset committed at the broker."""
    read, distinct = broker.events("record_id", records)
    found = {
        "records finished": database.count(_FINISHED),
        "events read back": read,
        "different events read back": distinct,
        "offsets committed at the broker": broker.committed(),
    }
    return _differing(found, records, what) + _differing({"events left": database.count(_LEFT)}, left, what)


def _differing(found: dict[str, int], wanted: int, what: str) -> list[str]:
    return [f"{what}: {count} {name}, not {wanted}" for name, count in found.items() if count != wanted]
