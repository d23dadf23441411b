"""What a record leaves behind: write-ahead log, tables, indexes (goal 5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.checks import Expected, broken, faults
from bench.children import Spec, run_children
from bench.plan import Stand
from bench.records import write_records
from bench.report import LegReport, Table, Verdict, number
from bench.server import Database

_WAL, _BYTES = 1300.0, 800.0
_SIZES: Final = """
SELECT n.nspname || '.' || c.relname, pg_table_size(c.oid), pg_indexes_size(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('assay', 'assay_vault') AND c.relkind = 'r' AND pg_total_relation_size(c.oid) > 0
ORDER BY pg_total_relation_size(c.oid) DESC
"""
# Each record of the log counts for the table (or the table of the index) whose page comes first in it.
_WAL_BY_TABLE: Final = """
WITH parts AS (
    SELECT relfilenode, sum(record_length) AS bytes
    FROM pg_get_wal_block_info('0/0'::pg_lsn + %s::numeric, '0/0'::pg_lsn + %s::numeric)
    WHERE block_id = 0
    GROUP BY relfilenode
)
SELECT coalesce(n.nspname || '.' || coalesce(o.relname, c.relname), 'other'), sum(p.bytes)::bigint
FROM parts p
LEFT JOIN pg_class c ON pg_relation_filenode(c.oid) = p.relfilenode
LEFT JOIN pg_index i ON i.indexrelid = c.oid
LEFT JOIN pg_class o ON o.oid = i.indrelid
LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
GROUP BY 1
"""
_WORTH_A_ROW: Final = 8.0
# Beside the limits, not inside them: sealed text and labels, and the history.
_BESIDE: Final = ("assay_vault.", "assay.task_history")

_NOTE: Final = (
    "WAL of an index counts for its table. What has less than 8 bytes per record is in the sums alone."
)


def run(stand: Stand) -> Iterator[LegReport]:
    """One run of the product into an empty database, with no checkpoint in it."""
    records = 20_000 if stand.plan.quick else 50_000
    stand.plan.say(f"footprint: {records:,} records")
    report = LegReport("footprint", "Footprint")
    file = stand.plan.work / "footprint.jsonl"
    write_records(file, records)
    with stand.server.product_database() as database:
        database.run("CREATE EXTENSION pg_walinspect")
        database.run("CHECKPOINT")
        start = database.wal_position()
        spec: Spec = {"url": database.url, "file": str(file), "model": "at_once"}
        measured = run_children("product", [spec], stand.server.pid)
        end = database.wal_position()
        report.faults += faults(database, Expected(records), "footprint")
        wal = _wal_by_table(database, start, end)
        database.run("CHECKPOINT")
        sizes = {name: (heap / records, index / records) for name, heap, index in database.rows(_SIZES)}
        report.faults += broken(database, "footprint")
    per_record = {name: bytes_ / records for name, bytes_ in wal.items()}
    report.tables = [_table(sizes, per_record)]
    report.verdicts = _verdicts(sizes, per_record, (end - start) / records)
    report.figures = {
        "records": records, "wal_per_record": (end - start) / records,
        "python_us": measured.answers[0]["cpu"] / records * 1e6,
        "postgresql_us": measured.usage.server_cpu / records * 1e6,
    }  # fmt: skip
    report.complete = True
    yield report


def _wal_by_table(database: Database, start: int, end: int) -> dict[str, int]:
    return {name: int(bytes_) for name, bytes_ in database.rows(_WAL_BY_TABLE, (start, end))}


def _is_beside(name: str) -> bool:
    return name.startswith(_BESIDE)


def _table(sizes: dict[str, tuple[float, float]], wal: dict[str, float]) -> Table:
    rows: list[tuple[str, ...]] = []
    names = sorted(sizes.keys() | wal.keys(), key=lambda name: -wal.get(name, 0.0))
    for name in names:
        heap, index = sizes.get(name, (0.0, 0.0))
        if heap + index + wal.get(name, 0.0) >= _WORTH_A_ROW:
            inside = "beside" if _is_beside(name) else "inside"
            rows.append((name, inside, number(heap), number(index), number(wal.get(name, 0.0))))
    for inside in ("inside", "beside"):
        chosen = [name for name in names if _is_beside(name) == (inside == "beside")]
        heap = sum(sizes.get(name, (0.0, 0.0))[0] for name in chosen)
        index = sum(sizes.get(name, (0.0, 0.0))[1] for name in chosen)
        log = sum(wal.get(name, 0.0) for name in chosen)
        rows.append((f"all that is {inside} the limits", inside, number(heap), number(index), number(log)))
    columns = ("bytes per record", "limits", "table", "indexes", "WAL")
    return Table("Footprint by table", columns, rows, _NOTE)


def _verdicts(sizes: dict[str, tuple[float, float]], wal: dict[str, float], whole: float) -> list[Verdict]:
    inside = sum(bytes_ for name, bytes_ in wal.items() if not _is_beside(name))
    stored = sum(sum(parts) for name, parts in sizes.items() if not _is_beside(name))
    return [
        Verdict("5. WAL per record, text and history beside", "≤ 1,300 B",
                f"{inside:,.0f} B ({whole:,.0f} B with them)", inside <= _WAL),
        Verdict("5. Table and index per record, text and history beside", "≤ 800 B",
                f"{stored:,.0f} B", stored <= _BYTES),
    ]  # fmt: skip
