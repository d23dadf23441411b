"""Many finished records in a database, made from a few that the product itself wrote.

Every row of the model records is copied with shifted keys, whatever its columns are: a column that the schema
gains is copied as it is.
"""

from __future__ import annotations

from typing import Final, LiteralString

import psycopg
from psycopg import sql

from bench.server import Database

MODELS: Final = 1000
# Larger than any key that the model records have.
_STRIDE: Final = 10_000
_SHIFTED: Final = {
    "task_id", "history_id", "call_id", "outbox_id", "text_ref", "encrypted_text_ref", "label_ref",
    "encrypted_label_ref",
}  # fmt: skip
_FRESH: Final = {"attempt_id", "event_id", "replaced_attempt_id"}
_TABLES: Final = """
SELECT n.nspname, c.relname, array_agg(a.attname ORDER BY a.attnum), max(c.reltuples)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
WHERE n.nspname IN ('assay', 'assay_vault') AND c.relkind IN ('r', 'p') AND NOT c.relispartition
GROUP BY n.nspname, c.relname
HAVING bool_or(a.attname = ANY (%s))
ORDER BY n.nspname, c.relname
"""
_SEQUENCES: Final = """
SELECT format('%I.%I', schemaname, sequencename) FROM pg_sequences
WHERE schemaname IN ('assay', 'assay_vault')
"""


def multiply(database: Database, copies: int, *, ordered: bool) -> int:
    """Copy the model records (MODELS of them, ordered ids from 0) `copies` times; records there are now.

    Copies continue the ordered ids, or have random ones, as `bench.records.record_id` makes them.
    """
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET work_mem = '256MB'")
        keys = sorted(_SHIFTED | {"record_id", "aggregate_id"})
        for schema, table, names, _ in connection.execute(_TABLES, (keys,)).fetchall():
            connection.execute(_copy(schema, table, names, copies, ordered=ordered))
        for (sequence,) in connection.execute(_SEQUENCES).fetchall():
            connection.execute("SELECT setval(%s, %s)", (sequence, (copies + 2) * _STRIDE))
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")
    return MODELS * (copies + 1)


def _copy(schema: str, table: str, names: list[str], copies: int, *, ordered: bool) -> sql.Composed:
    """One INSERT … SELECT: the table's own rows, once per copy."""
    shifted = [_value(name, ordered=ordered) for name in names]
    return sql.SQL(
        "INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE "
        "SELECT {values} FROM (TABLE {table}) AS m CROSS JOIN generate_series(1, {copies}) AS copy (k) "
        "ORDER BY k"
    ).format(
        table=sql.Identifier(schema, table),
        names=sql.SQL(", ").join(map(sql.Identifier, names)),
        values=sql.SQL(", ").join(shifted),
        copies=sql.Literal(copies),
    )


def _value(name: str, *, ordered: bool) -> sql.Composable:
    column = sql.Identifier("m", name)
    if name in _SHIFTED:
        return sql.SQL("{} + copy.k::bigint * {}").format(column, sql.Literal(_STRIDE))
    if name in _FRESH:
        return sql.SQL("CASE WHEN {} IS NOT NULL THEN gen_random_uuid() END").format(column)
    if name == "record_id":
        return _renumbered(column, "", ordered=ordered)
    if name == "aggregate_id":
        return _renumbered(column, "bench/", ordered=ordered)
    return column


def _renumbered(column: sql.Identifier, head: LiteralString, *, ordered: bool) -> sql.Composed:
    number = sql.SQL("(right({}, 9)::bigint + copy.k * {})").format(column, sql.Literal(MODELS))
    made = "lpad({}::text, 9, '0')" if ordered else "substr(encode(sha256({}::text::bytea), 'hex'), 1, 16)"
    text = sql.SQL(made).format(number)
    return sql.SQL("{} || {}").format(sql.Literal(f"{head}ticket-"), text)
