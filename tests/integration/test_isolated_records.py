"""Isolated records: found, looked at, fixed once, closed; the database refuses everything else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import psycopg
import pytest
from audit_situations import KEK, Line, register

from assay.adapters.postgres.audit_store import AuditStore
from assay.adapters.postgres.explain_store import ExplainStore
from assay.adapters.postgres.isolated_fixes import Fix, Fixed, FixOutcome, IsolatedFixes, ReadPiece
from assay.adapters.postgres.isolated_store import IsolatedFilter, IsolatedStore
from assay.adapters.postgres.session import make_pool
from assay.adapters.vault import Vault
from assay.domain.failures import ConfigurationError
from assay.domain.identity import InputRecord, MalformedInput, SourceItem, SourcePosition
from assay.domain.isolated import IsolatedPiece, Reading, as_new_version, read_again
from assay.domain.lifecycle import TaskState
from assay.domain.records import Referenced
from assay.domain.work import Isolation, Offer, Verdict

MENDED = Fix("corrected_bytes", "a brace was missing", "ann")
TIME = 1_700_000_000_123
ANY = IsolatedFilter()


@dataclass
class Place:
    """A pipeline version on a database of its own, with one malformed piece and one conflict."""

    url: str
    line: Line

    @property
    def store(self) -> IsolatedStore:
        return IsolatedStore(self.url)

    def fixes(self, version_id: int | None = None) -> IsolatedFixes:
        version = self.line.version_id if version_id is None else version_id
        return IsolatedFixes(self.line.pool, self.line.vault, version_id=version, author="ann")

    def ids(self, which: IsolatedFilter = ANY) -> list[int]:
        return [int(str(row["isolated_id"])) for row in self.store.list(which)]

    async def fix(self, isolated_id: int, raw: bytes, fixes: IsolatedFixes | None = None) -> Fixed:
        """Correct one piece."""

        async def read(piece: IsolatedPiece) -> SourceItem:
            item = read_again(piece, raw, Reading(None, 1000))
            assert not isinstance(item, Referenced)
            return item

        return await self.write(isolated_id, read, fixes or self.fixes())

    async def write(self, isolated_id: int, read: ReadPiece, fixes: IsolatedFixes) -> Fixed:
        ((piece, item),) = await fixes.read([isolated_id], read)
        (done,) = await fixes.fix([(isolated_id, piece.source_id, item)], MENDED, offered)
        return done

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(query.encode()).fetchall()

    def clean(self) -> None:
        assert AuditStore(self.url, Vault(KEK)).audit().broken == ()


def offered(record: InputRecord) -> Offer:
    return Offer(record, 0.0, False)


@pytest.fixture
async def place(db_url: str) -> AsyncIterator[Place]:
    pool = make_pool(db_url, size=3)
    await pool.open()
    line = Line(pool, Vault(KEK), "tickets", register(db_url, "tickets", "m1"), 0)
    line.source_id = await line.sources.register(kind="kafka", name="topic", fingerprint="t", mapping="{}")
    malformed = MalformedInput(SourcePosition(0, 0, None, 3, TIME), "topic", b'{"id": "a"', "not_json")
    await line.sources.isolate(line.source_id, [Isolation.of_malformed(malformed)])
    line.offset = 1
    await line.accept(line.record("b", text="first"))
    other = line.record("b", text="other", customer="acme", subject_id="p1")
    (found,) = (await line.claims().claim(line.source_id, [offered(other)])).not_won
    assert found.verdict is Verdict.CONFLICT
    await line.sources.isolate(line.source_id, [Isolation.of_conflict(other)])
    try:
        yield Place(db_url, line)
    finally:
        await pool.close()


async def test_a_fixed_piece_is_labelled_by_any_worker_and_has_its_place(place: Place) -> None:
    (malformed, _) = place.ids()
    done = await place.fix(malformed, b'{"id": "a", "text": "mended"}')
    assert done.outcome is FixOutcome.FIXED
    page = place.store.page(malformed)
    assert (page.record["state"], page.record["replay_count"]) == ("resolved", 1)
    assert [(act["kind"], act["actor"], act["reason"]) for act in page.acts] == [
        ("fixed", "ann", "a brace was missing")
    ]
    assert place.rows("SELECT record_id, source_offset, extract(epoch FROM source_timestamp) * 1000 "
                      "FROM assay.inputs WHERE record_id = 'a'") == [("a", 0, TIME)]  # fmt: skip
    (task,) = await place.line.claims("another worker").claim_waiting(5)
    assert (task.record_id, task.text, task.attempts, task.is_retry) == ("a", "mended", 1, False)
    assert task.age_seconds == pytest.approx(0.0, abs=1e-6)
    await place.line.finish(place.line.accepted(task))
    assert place.store.page(malformed).task == {
        "isolated_id": malformed, "state": TaskState.AUTO_CANDIDATE.value, "pipeline": "tickets",
        "pipeline_version": place.rows("SELECT pipeline_version FROM assay.pipeline_versions")[0][0],
    }  # fmt: skip
    history = ExplainStore(place.url).explain("a")
    assert [row["isolated_id"] for row in history.isolated] == [malformed]
    place.clean()


async def test_fixed_twice_changes_nothing(place: Place) -> None:
    (malformed, _) = place.ids()
    await place.fix(malformed, b'{"id": "a", "text": "mended"}')
    before = place.rows("SELECT * FROM assay.isolated_records, assay.isolated_acts ORDER BY act_id")
    again = await place.fix(malformed, b'{"id": "c", "text": "something else"}')
    assert again.outcome is FixOutcome.ENDED_BEFORE
    assert place.rows("SELECT * FROM assay.isolated_records, assay.isolated_acts ORDER BY act_id") == before
    assert place.rows("SELECT count(*) FROM assay.inputs") == [(2,)]
    place.clean()


async def test_of_two_fixes_at_once_one_counts(place: Place) -> None:
    (malformed, _) = place.ids()
    texts = [f'{{"id": "a", "text": "by {number}"}}'.encode() for number in range(3)]
    done = await asyncio.gather(*(place.fix(malformed, raw) for raw in texts))
    assert sorted(each.outcome for each in done) == ["ended_before", "ended_before", "fixed"]
    assert place.rows("SELECT count(*) FROM assay.isolated_acts WHERE kind = 'fixed'") == [(1,)]
    place.clean()


async def test_what_is_known_already_is_no_second_record(place: Place) -> None:
    (malformed, _) = place.ids()
    done = await place.fix(malformed, b'{"id": "b", "text": "first"}')
    assert done.outcome is FixOutcome.KNOWN
    assert place.store.page(malformed).record["state"] == "resolved"
    assert place.rows("SELECT source_offset FROM assay.source_duplicates") == [(0,)]
    assert await place.line.claims().claim_waiting(5) == []
    place.clean()


async def test_another_version_of_the_pipeline_gets_a_known_record_of_its_own(place: Place) -> None:
    (malformed, _) = place.ids()
    newer = register(place.url, "tickets", "m2")
    assert (await place.fix(malformed, b'{"id": "b", "text": "first"}', place.fixes(newer))).outcome is (
        FixOutcome.FIXED
    )
    assert place.rows("SELECT version_id FROM assay.parked_tasks") == [(newer,)]
    place.clean()


@pytest.mark.parametrize(
    ("raw", "outcome"),
    [(b'{"id": "a"', FixOutcome.MALFORMED), (b'{"id": "b", "text": "third"}', FixOutcome.CONFLICT)],
)
async def test_what_is_no_record_yet_stays_open(place: Place, raw: bytes, outcome: FixOutcome) -> None:
    (malformed, _) = place.ids()
    assert (await place.fix(malformed, raw)).outcome is outcome
    page = place.store.page(malformed)
    assert (page.record["state"], page.acts) == ("open", [])
    assert place.rows("SELECT count(*) FROM assay.inputs") == [(1,)]
    place.clean()


async def test_an_erased_record_stays_erased(place: Place) -> None:
    (malformed, _) = place.ids()
    with psycopg.connect(place.url) as connection:
        connection.execute(
            "UPDATE assay.annotation_tasks SET state = 'erased', moves = moves + 1, last_move = 'erase', "
            "last_moved_at = assay.assay_now(), last_actor = 'ann', last_reason = 'asked for'"
        )
    assert (await place.fix(malformed, b'{"id": "b", "text": "first"}')).outcome is FixOutcome.ERASED


async def test_a_conflict_becomes_a_version_of_its_own_with_what_it_carried(place: Place) -> None:
    (_, conflict) = place.ids()

    async def read(piece: IsolatedPiece) -> SourceItem:
        return as_new_version(piece, 2)

    assert (await place.write(conflict, read, place.fixes())).outcome is FixOutcome.FIXED
    assert place.rows("SELECT input_version, customer, subject_id FROM assay.inputs ORDER BY 1") == [
        (1, None, None), (2, "acme", "p1"),
    ]  # fmt: skip
    (task,) = await place.line.claims().claim_waiting(5)
    assert (task.input_version, task.text) == (2, "other")
    await place.line.finish(place.line.accepted(task))
    place.clean()


async def test_many_pieces_that_are_one_record_are_resolved_together(place: Place) -> None:
    line = place.line
    raw = b'{"id": "c", "text": "thrice"}'
    pieces = [MalformedInput(SourcePosition(1, n), "topic", raw, "missing_field") for n in range(3)]
    await line.sources.isolate(line.source_id, [Isolation.of_malformed(each) for each in pieces])
    ids = place.ids(IsolatedFilter(error_type="missing_field"))

    async def read(piece: IsolatedPiece) -> SourceItem:
        item = read_again(piece, piece.raw, Reading({}, 1000))
        assert not isinstance(item, Referenced)
        return item

    fixes = place.fixes()
    found = await fixes.read(ids, read)
    items = [(piece.isolated_id, piece.source_id, item) for piece, item in found]
    done = await fixes.fix(items, Fix("mapping", "the mapping was wrong", "ann", "{}"), offered)
    assert [each.outcome for each in done] == [FixOutcome.FIXED, FixOutcome.KNOWN, FixOutcome.KNOWN]
    assert {act["fix"] for each in ids for act in place.store.page(each).acts} == {"mapping"}
    place.clean()


# --- acts ---------------------------------------------------------------------------------------------


async def test_who_looked_at_the_bytes_is_kept(place: Place) -> None:
    (malformed, conflict) = place.ids()
    piece = place.store.open_bytes(malformed, Vault(KEK), actor="ann", reason="what is it?")
    assert (piece.raw, piece.position.timestamp_ms) == (b'{"id": "a"', TIME)
    assert place.store.open_bytes(conflict, Vault(KEK), actor="bob").raw == b"other"
    acts = place.rows("SELECT isolated_id, kind, actor, reason FROM assay.isolated_acts ORDER BY act_id")
    assert acts == [(malformed, "shown", "ann", "what is it?"), (conflict, "shown", "bob", None)]
    with pytest.raises(ConfigurationError, match="no isolated record 999"):
        place.store.open_bytes(999, Vault(KEK), actor="ann")


async def test_one_is_assigned_and_closed_once(place: Place) -> None:
    (malformed, conflict) = place.ids()
    assert place.store.assign(malformed, owner="bob", actor="ann")
    assert place.store.close(malformed, actor="bob", reason="a test message")
    assert not place.store.close(malformed, actor="bob", reason="again")
    assert not place.store.assign(malformed, owner="eve", actor="eve")
    assert (await place.fix(malformed, b'{"id": "a", "text": "late"}')).outcome is FixOutcome.ENDED_BEFORE
    page = place.store.page(malformed)
    assert (page.record["state"], page.record["owner"]) == ("closed", "bob")
    assert [act["kind"] for act in page.acts] == ["assigned", "closed"]
    assert place.ids(IsolatedFilter(state="open")) == [conflict]
    place.clean()


async def test_filters_find_what_they_name(place: Place) -> None:
    (malformed, conflict) = place.ids()
    assert place.ids(IsolatedFilter(code="input_schema_invalid")) == [malformed]
    assert place.ids(IsolatedFilter(error_type="content_differs")) == [conflict]
    assert place.ids(IsolatedFilter(source="elsewhere")) == []
    assert place.ids(IsolatedFilter(source="topic")) == [malformed, conflict]
    of_partition, since, behind = (
        place.store.list(IsolatedFilter(partition=1)),
        place.store.list(IsolatedFilter(since_seconds=60.0)),
        place.store.list(IsolatedFilter(), after=malformed, most=1),
    )
    assert (len(of_partition), len(since)) == (0, 2)
    assert [row["isolated_id"] for row in behind] == [conflict]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE assay.isolated_records SET state = 'resolved', replay_count = 1",
        "UPDATE assay.isolated_records SET state = 'closed'",
        "UPDATE assay.isolated_records SET replay_count = 1",
        "UPDATE assay.isolated_records SET error_type = 'x'",
        "UPDATE assay.isolated_records SET raw_ref = 0",
        "DELETE FROM assay.isolated_records",
        "INSERT INTO assay.isolated_acts (isolated_id, kind, at, actor) "
        "SELECT min(isolated_id), 'closed', now(), 'x' FROM assay.isolated_records",
        "INSERT INTO assay.isolated_acts (isolated_id, kind, at, actor, reason) "
        "SELECT min(isolated_id), 'fixed', now(), 'x', 'x' FROM assay.isolated_records",
    ],
)
async def test_the_database_refuses_moves_without_their_acts(place: Place, statement: str) -> None:
    with psycopg.connect(place.url) as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(statement.encode())
    assert refused.value.sqlstate in {"AS001", "AS002", "23514"}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE assay.isolated_acts SET reason = 'x'",
        "DELETE FROM assay.isolated_acts",
        "UPDATE assay.isolated_records SET state = 'open' WHERE state = 'closed'",
        "UPDATE assay.isolated_records SET owner = 'x' WHERE state = 'closed'",
        "INSERT INTO assay.isolated_acts (isolated_id, kind, at, actor, reason) "
        "SELECT isolated_id, 'closed', now(), 'x', 'x' FROM assay.isolated_acts",
    ],
)
async def test_what_is_done_stays_done(place: Place, statement: str) -> None:
    place.store.close(place.ids()[0], actor="ann", reason="nothing in it")
    with psycopg.connect(place.url) as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(statement.encode())
    assert refused.value.sqlstate in {"AS001", "AS002", "23505"}
