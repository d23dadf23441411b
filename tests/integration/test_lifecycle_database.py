"""The table of moves in code and in the database, and the database refusing everything else."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
import pytest

from assay.adapters.postgres.version_store import VersionStore
from assay.domain.failures import ConfigurationError
from assay.domain.lifecycle import LEGAL_MOVES, Move, TaskState, is_legal

Connection = psycopg.Connection[tuple[Any, ...]]
ILLEGAL: Final = "AS001"
REFUSED: Final = "AS002"
HELD: Final = UUID(int=1)
NEXT: Final = UUID(int=2)


@pytest.fixture
def connection(db_url: str) -> Iterator[Connection]:
    """A connection to a database with one version; what a test does is rolled back with its database."""
    VersionStore(db_url).register(
        name="tickets", pipeline_version="a" * 64, definition={}, label="first", code_commit=None,
        call_reserve=Decimal("0.5"),
    )  # fmt: skip
    with psycopg.connect(db_url) as opened:
        yield opened


def _columns(state: TaskState, attempt: UUID) -> dict[str, Any]:
    """The columns that a state asks for, so that no CHECK answers before the guard does."""
    return {
        "state": state.value,
        "attempt": attempt if state is TaskState.PROCESSING else None,
        "lease": "2100-01-01" if state is TaskState.PROCESSING else None,
        "due": "2100-01-01" if state is TaskState.RETRY_SCHEDULED else None,
        "code": "json_invalid" if state is TaskState.QUARANTINED else None,
        "why": "low_confidence" if state is TaskState.REVIEW_PENDING else None,
        "number": 1,
    }


_INSERT: Final = """
    INSERT INTO assay.annotation_tasks
        (record_id, input_version, version_id, input_sha256, encrypted_text_ref, state, attempt_id,
         lease_until, not_before, error_code, review_reason, attempts, quality_probability, quality_selected,
         first_claimed_at, moves, last_move, last_moved_at, last_actor)
    VALUES ('r', %(number)s, 1, '', 0, %(state)s::assay.task_state, %(attempt)s, %(lease)s, %(due)s, %(code)s,
            %(why)s, 1, 0, false, now(), %(moves)s, %(move)s::assay.task_move, now(), 'w')
    RETURNING task_id
"""
_UPDATE: Final = """
    UPDATE assay.annotation_tasks
    SET state = %(state)s::assay.task_state, attempt_id = %(attempt)s, lease_until = %(lease)s,
        not_before = %(due)s, error_code = %(code)s, review_reason = %(why)s, moves = moves + %(steps)s,
        last_move = %(move)s::assay.task_move, last_actor = 'ann', last_reason = 'because'
    WHERE record_id = 'r'
"""


def _place(connection: Connection, state: TaskState, number: int = 1) -> int:
    """A task in a state, however it came there: the guards are off while it is made."""
    connection.execute("SET LOCAL session_replication_role = replica")
    terms = _columns(state, HELD) | {"moves": 1, "move": "claim"} | {"number": number}
    row = connection.execute(_INSERT, terms).fetchone()
    connection.execute("SET LOCAL session_replication_role = origin")
    assert row is not None
    return int(row[0])


def _sqlstate(connection: Connection, statement: str, terms: dict[str, Any] | None = None) -> str | None:
    """The SQLSTATE with which a statement is refused, None when it passes; it leaves no trace."""
    connection.execute("SAVEPOINT probe")
    try:
        connection.execute(statement.encode(), terms)
    except psycopg.Error as error:
        return error.sqlstate
    finally:
        connection.execute("ROLLBACK TO SAVEPOINT probe")
    return None


def test_code_and_database_have_the_same_table(connection: Connection) -> None:
    rows = connection.execute("SELECT from_state::text, move::text, to_state::text FROM assay.legal_moves")
    assert sorted(rows, key=str) == sorted(
        ((before and before.value, move.value, after.value) for before, move, after in LEGAL_MOVES), key=str
    )


def test_code_and_database_have_the_same_names(connection: Connection) -> None:
    for name, words in (("task_state", TaskState), ("task_move", Move)):
        row = connection.execute(f"SELECT enum_range(NULL::assay.{name})::text[]".encode()).fetchone()
        assert row == ([word.value for word in words],)


@pytest.mark.parametrize("before", TaskState)
def test_every_move_from_a_state(connection: Connection, before: TaskState) -> None:
    """All 20 moves to all 10 states: what the table allows passes, all else is refused by the guard."""
    _place(connection, before)
    for move, after in product(Move, TaskState):
        refused = _sqlstate(connection, _UPDATE, _columns(after, NEXT) | {"move": move.value, "steps": 1})
        expected = None if is_legal(before, move, after) else ILLEGAL
        assert refused == expected, (before, move, after)


def test_every_first_move(connection: Connection) -> None:
    for move, after in product(Move, TaskState):
        refused = _sqlstate(connection, _INSERT, _columns(after, HELD) | {"move": move.value, "moves": 1})
        assert refused == (None if is_legal(None, move, after) else ILLEGAL), (move, after)


def test_the_count_of_moves_cannot_be_bent(connection: Connection) -> None:
    first = _columns(TaskState.PROCESSING, HELD) | {"move": "claim", "moves": 2}
    assert _sqlstate(connection, _INSERT, first) == ILLEGAL
    _place(connection, TaskState.PROCESSING)
    legal = _columns(TaskState.AUTO_CANDIDATE, HELD) | {"move": "accept"}
    assert [_sqlstate(connection, _UPDATE, legal | {"steps": steps}) for steps in (1, 2, 0, -1)] == [
        None, ILLEGAL, ILLEGAL, ILLEGAL,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        "record_id = 'other'", "input_version = 2", "version_id = 2", "quality_probability = 0.5",
        "quality_selected = true", f"attempt_id = '{NEXT}'",
    ],
)  # fmt: skip
def test_what_a_task_is_never_changes(connection: Connection, change: str) -> None:
    _place(connection, TaskState.PROCESSING)
    assert _sqlstate(connection, f"UPDATE assay.annotation_tasks SET {change}") == ILLEGAL
    assert _sqlstate(connection, "UPDATE assay.annotation_tasks SET first_pass_code = 'json_invalid'") is None


def test_one_illegal_row_refuses_the_whole_statement(connection: Connection) -> None:
    accept = _columns(TaskState.AUTO_CANDIDATE, HELD) | {"move": "accept", "steps": 1}
    _place(connection, TaskState.PROCESSING)
    assert _sqlstate(connection, _UPDATE, accept) is None
    _place(connection, TaskState.ERASED, number=2)
    assert _sqlstate(connection, _UPDATE, accept) == ILLEGAL


# --- the history --------------------------------------------------------------------------------------


def _history(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute(
        "SELECT move::text, from_state::text, to_state::text, attempt_id, replaced_attempt_id, actor, reason "
        "FROM assay.task_history ORDER BY history_id"
    ).fetchall()


def _move(connection: Connection, move: Move, after: TaskState, attempt: UUID = HELD) -> None:
    connection.execute(_UPDATE, _columns(after, attempt) | {"move": move.value, "steps": 1})


def test_the_database_writes_the_history(connection: Connection) -> None:
    connection.execute(_INSERT, _columns(TaskState.PROCESSING, HELD) | {"move": "claim", "moves": 1})
    _move(connection, Move.TAKE_OVER, TaskState.PROCESSING, NEXT)
    connection.execute("UPDATE assay.annotation_tasks SET lease_until = lease_until + interval '1 minute'")
    connection.execute("UPDATE assay.annotation_tasks SET first_pass_code = 'json_invalid'")
    _move(connection, Move.PARK, TaskState.RETRY_SCHEDULED)
    third = uuid4()
    _move(connection, Move.CLAIM, TaskState.PROCESSING, third)
    _move(connection, Move.REFER, TaskState.REVIEW_PENDING)
    _move(connection, Move.APPROVE, TaskState.REVIEWED)
    assert _history(connection) == [
        ("claim", None, "processing", HELD, None, "w", None),
        ("take_over", "processing", "processing", NEXT, HELD, "ann", "because"),
        ("park", "processing", "retry_scheduled", NEXT, None, "ann", "because"),
        ("claim", "retry_scheduled", "processing", third, None, "ann", "because"),
        ("refer", "processing", "review_pending", third, None, "ann", "because"),
        ("approve", "review_pending", "reviewed", None, None, "ann", "because"),
    ]
    row = connection.execute("SELECT moves FROM assay.annotation_tasks").fetchone()
    assert row == (6,)


@pytest.mark.parametrize(("first_pass_code", "pass_number"), [(None, 1), ("json_invalid", 2)])
def test_a_take_over_charges_the_attempt_it_replaces(
    connection: Connection, first_pass_code: str | None, pass_number: int
) -> None:
    task_id = _place(connection, TaskState.PROCESSING)
    connection.execute("UPDATE assay.annotation_tasks SET first_pass_code = %s", (first_pass_code,))
    _move(connection, Move.TAKE_OVER, TaskState.PROCESSING, NEXT)
    calls = connection.execute(
        "SELECT task_id, attempt_id, version_id, pass_number, outcome, billed, cost FROM assay.calls"
    ).fetchall()
    assert calls == [(task_id, HELD, 1, pass_number, "outcome_unknown", True, Decimal("0.5"))]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE assay.task_history SET actor = 'x'",
        "DELETE FROM assay.task_history",
        "TRUNCATE assay.task_history",
        "DELETE FROM assay.annotation_tasks",
        "TRUNCATE assay.annotation_tasks",
        "DELETE FROM assay.pipeline_versions",
        "TRUNCATE assay.pipeline_versions CASCADE",
        "UPDATE assay.pipeline_versions SET pipeline_version = repeat('b', 64)",
        "UPDATE assay.pipeline_versions SET name = 'other'",
        'UPDATE assay.pipeline_versions SET definition = \'{"model": "other"}\'',
        "UPDATE assay.pipeline_versions SET label = 'second'",
        "UPDATE assay.pipeline_versions SET label = NULL",
    ],
)
def test_what_was_written_stays(connection: Connection, statement: str) -> None:
    connection.execute(_INSERT, _columns(TaskState.PROCESSING, HELD) | {"move": "claim", "moves": 1})
    assert _sqlstate(connection, statement) == REFUSED


# --- versions -----------------------------------------------------------------------------------------


def _register(url: str, digest: str, label: str | None) -> tuple[int, bool]:
    return VersionStore(url).register(
        name="tickets", pipeline_version=digest * 64, definition={}, label=label, code_commit=None,
        call_reserve=Decimal(0),
    )  # fmt: skip


def test_a_label_belongs_to_one_version(db_url: str) -> None:
    first, new = _register(db_url, "a", "spring")
    assert new
    assert _register(db_url, "a", "spring") == (first, False)
    with pytest.raises(ConfigurationError, match="belongs to version aaaaaaaaaaaa"):
        _register(db_url, "b", "spring")
    with pytest.raises(ConfigurationError, match="labelled 'spring' already"):
        _register(db_url, "a", "summer")
    assert VersionStore(db_url).find(name="tickets", pipeline_version="b" * 64) is None


def test_a_label_may_be_given_later_and_once(db_url: str) -> None:
    version_id, _ = _register(db_url, "a", None)
    assert _register(db_url, "a", "spring") == (version_id, False)
    found = VersionStore(db_url).resolve("spring")
    assert (found.version_id, found.pipeline_version) == (version_id, "a" * 64)


def test_a_version_has_its_release_row_from_the_start(db_url: str) -> None:
    version_id, _ = _register(db_url, "a", None)
    with psycopg.connect(db_url) as connection:
        rows = connection.execute("SELECT version_id, stage, frozen FROM assay.releases").fetchall()
    assert rows == [(version_id, "unproven", False)]
