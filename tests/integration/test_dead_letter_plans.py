"""With 100,000 dead letters lists and pages go by index; cohorts read no other table from end to end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, LiteralString

import psycopg
import pytest
from audit_situations import register

from assay.adapters.postgres.dead_letter_store import DeadLetterStore
from assay.adapters.postgres.queries import queries
from assay.domain.dead_letters import LetterFilter, fingerprint

LETTERS: Final = 100_000
SQL: Final = queries("dead_letters")
LARGE: Final = frozenset({"annotation_tasks", "inputs", "calls", "task_history", "results", "texts"})
NOTHING: Final[dict[str, object]] = dict.fromkeys(
    ("ids", "up_to", "version_ids", "source_ids", "task_ids", "code", "failure_class", "kind", "field",
     "customer", "document_type", "language", "owner", "fingerprint", "since", "until", "overdue_at",
     "after"),
) | {
    "states": ["open", "assigned", "replaying"], "most": 50, "by": ["version", "code", "field", "customer"],
}  # fmt: skip
NARROWED: Final[tuple[dict[str, object], ...]] = (
    {}, {"after": LETTERS // 2}, {"version_ids": [1], "code": "rare"}, {"fingerprint": "0" * 15 + "7"},
    {"task_ids": [4711], "states": None}, {"states": None},
)  # fmt: skip
_FILL: Final = (
    """INSERT INTO assay_vault.texts (text_ref, kek_id, wrapped_key, ciphertext)
       SELECT n, 'none', '', '' FROM generate_series(1, %(count)s::int) n""",
    """INSERT INTO assay.results (name, record_id, task_id, input_version, version_id, revision, updated_at)
       SELECT 'tickets', 'r' || md5(n::text), n, 1, %(version)s::int, 1, now()
       FROM generate_series(1, %(count)s::int) n""",
    """INSERT INTO assay.inputs (record_id, input_version, input_sha256, encrypted_text_ref, source_id,
           partition_no, source_offset, customer, first_seen_at)
       SELECT 'r' || md5(n::text), 1, sha256(n::text::bytea), n, 1, 0, n, 'c' || n %% 20, now()
       FROM generate_series(1, %(count)s::int) n""",
    """INSERT INTO assay.annotation_tasks (task_id, record_id, input_version, version_id, input_sha256,
           encrypted_text_ref, state, attempts, quality_probability, quality_selected, first_claimed_at,
           moves, last_move, last_moved_at, last_actor, last_reason, error_code) OVERRIDING SYSTEM VALUE
       SELECT n, 'r' || md5(n::text), 1, %(version)s::int, sha256(n::text::bytea), n, 'quarantined', 1, 0,
              false, now(), 2, 'dead_letter', now(), 'w', 'json_invalid', 'json_invalid'
       FROM generate_series(1, %(count)s::int) n""",
    """INSERT INTO assay.calls (task_id, attempt_id, version_id, pass_number, outcome, billed, cost,
           recorded_at)
       SELECT n, md5('a' || n)::uuid, %(version)s::int, 1, 'rejected', true, 0.001, now() - interval '1 hour'
       FROM generate_series(1, %(count)s::int) n""",
    """INSERT INTO assay.dead_letters (task_id, attempt_id, version_id, error_code, failure_class, kind,
           errors, fields, fingerprint, attempts, first_attempt_at, last_attempt_at, state, owner, source_id,
           customer, due_at)
       SELECT n, md5('a' || n)::uuid, %(version)s::int,
              CASE WHEN n %% 1000 = 0 THEN 'rare' ELSE 'json_invalid' END,
              'contract', 'malformed', '[]', '{/a}', lpad(to_hex(n %% 500), 16, '0'), 1, now(), now(),
              CASE WHEN n %% 2 = 0 THEN 'assigned' ELSE 'open' END, CASE WHEN n %% 2 = 0 THEN 'ann' END, 1,
              'c' || n %% 20, now() + interval '7 days'
       FROM generate_series(1, %(count)s::int) n""",
)


@pytest.fixture
def full(db_url: str) -> str:
    """A database of dead letters alone, all of which wait."""
    version = register(db_url, "tickets", "m1")
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        for statement in _FILL:
            connection.execute(statement.encode(), {"count": LETTERS, "version": version})
        connection.execute("ANALYZE")
    return db_url


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)


def _plan(url: str, sql: LiteralString, terms: dict[str, object]) -> list[dict[str, Any]]:
    with psycopg.connect(url) as connection:
        ((told,),) = connection.execute(
            "EXPLAIN (ANALYZE, TIMING off, FORMAT JSON) " + sql, NOTHING | terms
        ).fetchall()
    plans = told if isinstance(told, list) else json.loads(told)
    return list(_nodes(plans[0]["Plan"]))


def _scanned(nodes: list[dict[str, Any]]) -> set[str]:
    return {node["Relation Name"] for node in nodes if node["Node Type"].endswith("Seq Scan")}


def _read(nodes: list[dict[str, Any]]) -> int:
    """The largest number of rows that one step looked at."""
    return max(
        int(node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)))
        for node in nodes
    )


def _over(name: str) -> LiteralString:
    return "WITH matching AS (" + SQL["letters_matching"] + ")\n" + SQL[name]


def test_plans_of_lists_pages_and_cohorts(full: str) -> None:
    for order in ("letters_newest", "letters_oldest"):
        for narrow in NARROWED:
            nodes = _plan(full, _over(order), narrow)
            assert _scanned(nodes) == set(), (order, narrow)
            assert _read(nodes) <= 1000, (order, narrow)
    for name in ("letters_envelopes", "letters_facts"):
        nodes = _plan(full, SQL[name], {"ids": list(range(1, 51))})
        assert not _scanned(nodes) & {*LARGE, "dead_letters"}, name
    nodes = _plan(full, _over("letters_cohorts"), {"most": 50})
    assert not _scanned(nodes) & LARGE
    nodes = _plan(full, _over("letters_size"), {"code": "rare", "version_ids": [1]})
    assert _scanned(nodes) == set()
    # The control: without its index a fingerprint is looked for from end to end.
    with psycopg.connect(full) as connection:
        connection.execute("DROP INDEX assay.dead_letters_fingerprint")
    assert (
        _read(_plan(full, _over("letters_newest"), {"fingerprint": fingerprint("x", None, ())}))
        >= LETTERS // 2
    )


def test_sums_over_all_of_them_are_the_ledgers(full: str) -> None:
    store = DeadLetterStore(full)
    (whole,) = store.cohorts(LetterFilter(), ("pipeline",), shares=False)
    assert (whole["count"], whole["calls"], str(whole["cost"])) == (LETTERS, LETTERS, "100.000")
    assert store.count(LetterFilter(owner="ann")).total == LETTERS // 2
    assert len(store.envelopes(LetterFilter(customer="c7"), most=20)) == 20
