"""A healthy database in which every state and situation stands, made through the real stores.

Moves that no store makes yet (people's decisions, shadow output, erasure) are made by hand, under the guards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import psycopg

from assay.adapters.postgres.claim_store import ClaimStore
from assay.adapters.postgres.dead_letter_acts import DeadLetterActs
from assay.adapters.postgres.dead_letter_store import DeadLetterStore
from assay.adapters.postgres.finish_store import FinishStore
from assay.adapters.postgres.isolated_fixes import Fix, IsolatedFixes
from assay.adapters.postgres.isolated_store import IsolatedStore
from assay.adapters.postgres.owner_lease import OwnerLease
from assay.adapters.postgres.session import Pool, make_pool
from assay.adapters.postgres.source_store import SourceStore
from assay.adapters.postgres.version_store import VersionStore
from assay.adapters.vault import Vault
from assay.domain.dead_letters import LetterFilter
from assay.domain.digest import definition_digest
from assay.domain.failures import FailureClass
from assay.domain.identity import Attributes, InputRecord, SourcePosition
from assay.domain.sealing import label_aad
from assay.domain.work import (
    CallOutcome,
    CallRecord,
    ClaimedTask,
    Evidence,
    Finish,
    FinishOutcome,
    Isolation,
    Label,
    Offer,
    Passes,
    Verdict,
    accept,
    dead_letter,
    park,
    refer,
)

KEK: Final = bytes(range(32))
ACCEPT_AT: Final = Decimal("0.85")
PLAIN: Final = '{"category":"billing","items":[{"amount":3}],"confidence":0.9}'
WHOLE: Final = '{"category":"billing","items":[{"amount":3,"note":"n"}],"reason":"r","confidence":0.9}'
ANSWERED: Final = Passes(calls=(CallRecord(1, CallOutcome.ACCEPTED, cost=Decimal("0.001")),))
TIMED_OUT: Final = Passes(calls=(CallRecord(1, CallOutcome.FAILED, code="provider_timeout"),))
REFUSED: Final = Evidence(FailureClass.CONTRACT, "malformed", (("", "json_invalid"),))


def definition(model: str) -> dict[str, Any]:
    """A definition with what the audit reads: the contract's sensitive texts."""
    return {"format": 1, "model": model, "contract": {"sensitive": ["/reason", "/items/*/note"]}}


def register(url: str, name: str, model: str, label: str | None = None) -> int:
    """A version under its true digest."""
    made = definition(model)
    version_id, _ = VersionStore(url).register(
        name=name, pipeline_version=definition_digest(made), definition=made, label=label, code_commit=None,
        call_reserve=Decimal("0.01"),
    )  # fmt: skip
    return version_id


@dataclass
class Line:
    """One worker on one version; offsets run on in the file that it reads."""

    pool: Pool
    vault: Vault
    name: str
    version_id: int
    source_id: int
    offset: int = 0

    def claims(self, actor: str = "worker", lease_seconds: float = 90.0) -> ClaimStore:
        return ClaimStore(
            self.pool,
            self.vault,
            version_id=self.version_id,
            lease=OwnerLease(actor),
            lease_seconds=lease_seconds,
        )

    @property
    def sources(self) -> SourceStore:
        return SourceStore(self.pool, self.vault, version_id=self.version_id)

    def record(self, record_id: str, number: int = 1, **fields: Any) -> InputRecord:
        position = SourcePosition(0, self.offset, self.offset + 1)
        self.offset += 1
        text = fields.pop("text", f"the text of {record_id}, version {number}")
        return InputRecord(record_id, number, text, "records.jsonl", position, Attributes(**fields))

    async def claim(self, *records: InputRecord, pool: bool = False, **terms: Any) -> list[ClaimedTask]:
        offers = [Offer(record, 0.5 if pool else 0.0, pool) for record in records]
        claims = await self.claims(**terms).claim(self.source_id, offers)
        assert not claims.not_won
        won = {record.key: task for record, task in claims.won}
        return [won[record.key] for record in records]

    async def finish(self, *finishes: Finish, actor: str = "worker") -> list[FinishOutcome]:
        store = FinishStore(self.pool, name=self.name, version_id=self.version_id, actor=actor)
        answers = await store.finish(finishes)
        return [answers[each.task.attempt_id].outcome for each in finishes]

    def accepted(self, task: ClaimedTask, passes: Passes = ANSWERED) -> Finish:
        sealed = self.vault.seal(
            task.key, WHOLE.encode(), label_aad(task.identity, task.sha256, task.task_id)
        )
        return accept(task, Label(PLAIN, sealed, Decimal("0.9")), passes, ACCEPT_AT)

    async def accept(self, *records: InputRecord, **terms: Any) -> None:
        tasks = await self.claim(*records, **terms)
        assert set(await self.finish(*map(self.accepted, tasks))) == {FinishOutcome.DONE}

    async def refer(self, record: InputRecord) -> None:
        (task,) = await self.claim(record)
        await self.finish(refer(task, None, ANSWERED, "insufficient_evidence", ACCEPT_AT))

    async def refuse(self, record: InputRecord) -> None:
        """Refused on both passes; the first one is noted before the correction."""
        (task,) = await self.claim(record)
        store = FinishStore(self.pool, name=self.name, version_id=self.version_id, actor="worker")
        await store.note_first_pass(
            [(task, "json_invalid", CallRecord(1, CallOutcome.REJECTED, code="json_invalid"))]
        )
        passes = Passes("json_invalid", "json_invalid", (CallRecord(2, CallOutcome.REJECTED),))
        await self.finish(dead_letter(task, "json_invalid", REFUSED, passes))


async def build(url: str) -> None:
    """Fill the database at `url`, freshly migrated."""
    first = register(url, "tickets", "m1", "first")
    second = register(url, "tickets", "m2", "second")
    pool = make_pool(url, size=2)
    await pool.open()
    try:
        vault = Vault(KEK)
        main = await _line(pool, vault, "tickets", first)
        await _settled(main)
        await _retries(main)
        await _take_overs(main)
        await _newer_versions(main)
        await _not_records(main)
        await _held(main)
        await _second_version(pool, vault, second, main)
        other = await _line(pool, vault, "other", register(url, "other", "m1"), "others.jsonl")
        await other.accept(other.record("accepted"))
        await _frozen(url, pool, vault)
        await _mended(url, pool, vault)
        await _by_hand(url, pool, vault, main)
        _dead_letters(url)
    finally:
        await pool.close()


async def _line(pool: Pool, vault: Vault, name: str, version_id: int, file: str = "records.jsonl") -> Line:
    line = Line(pool, vault, name, version_id, 0)
    line.source_id = await line.sources.register(kind="file", name=file, fingerprint=file, mapping="{}")
    return line


async def _settled(line: Line) -> None:
    await line.accept(line.record("accepted"))
    await line.accept(line.record("pool"), pool=True)
    (drawn,) = await line.claim(line.record("category"))
    finish = line.accepted(drawn)
    assert finish.label is not None
    label = replace(finish.label, stratum="billing", stratum_probability=0.1, stratum_selected=True)
    await line.finish(replace(finish, label=label))
    await line.refer(line.record("referred"))
    await line.refuse(line.record("dead"))
    await line.accept(line.record("subject", subject_id="person-1"))
    (policy, exhausted) = await line.claim(line.record("policy"), line.record("exhausted"))
    refused = Evidence(FailureClass.POLICY, None, (("", "provider_refused"),))
    given_up = Evidence(FailureClass.TRANSIENT, None, (("", "attempts_exhausted"),))
    await line.finish(
        dead_letter(policy, "provider_refused", refused, TIMED_OUT),
        dead_letter(exhausted, "attempts_exhausted", given_up, Passes()),
    )


async def _retries(line: Line) -> None:
    parked, retried, again, drained = await line.claim(
        *(line.record(name) for name in ("parked", "retried", "again", "drained"))
    )
    cut_off = Passes(calls=(CallRecord(1, CallOutcome.OUTCOME_UNKNOWN, cost=Decimal("0.01")),))
    await line.finish(
        park(parked, 3600.0, "provider_timeout", TIMED_OUT, uses_attempt=True),
        park(retried, 0.0, "provider_timeout", TIMED_OUT, uses_attempt=True),
        park(again, 0.0, "provider_timeout", TIMED_OUT, uses_attempt=True),
        park(drained, 3600.0, "drained", cut_off, uses_attempt=False),
    )
    waiting = {task.record_id: task for task in await line.claims().claim_waiting(10)}
    assert set(waiting) == {"retried", "again"}
    await line.finish(line.accepted(waiting["retried"]))


async def _take_overs(line: Line) -> None:
    lost = await line.claim(line.record("taken"), line.record("silent"), actor="dead", lease_seconds=0.0)
    taken = await line.claims().claim_waiting(10)
    assert {task.record_id for task in taken if task.taken_over} == {"taken", "silent"}
    assert set(await line.finish(*map(line.accepted, taken))) == {FinishOutcome.DONE}
    late = await line.finish(line.accepted(next(task for task in lost if task.record_id == "taken")))
    assert late == [FinishOutcome.LEASE_LOST]


async def _newer_versions(line: Line) -> None:
    await line.accept(line.record("newer"))
    await line.accept(line.record("newer", 2))
    await line.accept(line.record("late", 2))
    await line.accept(line.record("late", 1))
    await line.accept(line.record("together", 1), line.record("together", 2))
    await line.refuse(line.record("dead and mended"))
    await line.accept(line.record("dead and mended", 2))
    await line.refer(line.record("referred and replaced"))
    await line.accept(line.record("referred and replaced", 2))
    (task,) = await line.claim(line.record("parked and replaced"))
    await line.finish(park(task, 3600.0, "provider_timeout", TIMED_OUT, uses_attempt=True))
    await line.accept(line.record("parked and replaced", 2))


async def _not_records(line: Line) -> None:
    other = line.record("accepted", text="other content")
    again = replace(line.record("accepted"), text="the text of accepted, version 1")
    claims = await line.claims().claim(line.source_id, [Offer(other, 0.0, False), Offer(again, 0.0, False)])
    assert {each.verdict for each in claims.not_won} == {Verdict.CONFLICT, Verdict.SETTLED}
    position = SourcePosition(0, line.offset, line.offset + 1)
    line.offset += 1
    code = "input_version_conflicts_with_content"
    isolations = [
        Isolation(other.position, other.text.encode(), code, "content_differs", record=other),
        Isolation(position, b"{not json", "input_schema_invalid", "not_json"),
    ]
    assert await line.sources.isolate(line.source_id, isolations) == 2
    assert await line.sources.isolate(line.source_id, isolations) == 0


async def _held(line: Line) -> None:
    """What is being processed lies above the checkpoint, unless it had been parked."""
    await line.sources.commit(line.source_id, line.offset)
    await line.claim(line.record("held"))


async def _second_version(pool: Pool, vault: Vault, version_id: int, first: Line) -> None:
    second = await _line(pool, vault, "tickets", version_id)
    await second.accept(second.record("accepted"))
    await second.sources.commit(second.source_id, 1)
    await second.accept(first.record("older version finishes last"))
    copy = await _line(pool, vault, "tickets", first.version_id, "copy.jsonl")
    await copy.accept(copy.record("older version finishes last"))
    await copy.sources.commit(copy.source_id, 1)


async def _frozen(url: str, pool: Pool, vault: Vault) -> None:
    line = await _line(pool, vault, "frozen", register(url, "frozen", "m1"), "frozen.jsonl")
    before, after = await line.claim(line.record("before the freeze"), line.record("after the freeze"))
    await line.finish(line.accepted(before))
    VersionStore(url).freeze(line.version_id, reason="schema failures", actor="ann")
    await line.finish(line.accepted(after))


async def _mended(url: str, pool: Pool, vault: Vault) -> None:
    """Isolated pieces that were fixed (one of them labelled since) and closed; a record of low priority."""
    line = await _line(pool, vault, "mended", register(url, "mended", "m1"), "mended.jsonl")
    mended = [line.record(f"mended {number}") for number in range(2)]
    closed = line.record("closed piece")
    await line.sources.isolate(
        line.source_id,
        [Isolation(r.position, b"{", "input_schema_invalid", "not_json") for r in (*mended, closed)],
    )
    with psycopg.connect(url) as connection:
        ids = [row[0] for row in connection.execute(
            "SELECT isolated_id FROM assay.isolated_records WHERE source_id = %s ORDER BY source_offset",
            (line.source_id,),
        )]  # fmt: skip
    fixes = IsolatedFixes(pool, vault, version_id=line.version_id, author="ann")
    fix = Fix("corrected_bytes", "a brace was missing", "ann")
    items = [(isolated_id, line.source_id, record) for isolated_id, record in zip(ids, mended, strict=False)]
    await fixes.fix(items, fix, lambda record: Offer(record, 0.0, False))
    (first, _) = await line.claims().claim_waiting(2)
    await line.finish(line.accepted(first))
    IsolatedStore(url).close(ids[2], actor="ann", reason="a test message")
    low = Offer(line.record("low", priority="low"), 0.0, False)
    await line.claims().claim(line.source_id, [low], park_as="low_priority_paused")
    await line.sources.commit(line.source_id, line.offset)


_MOVE: Final = """
    UPDATE assay.annotation_tasks
    SET state = %(state)s::assay.task_state, attempt_id = NULL, lease_until = NULL, lease_id = NULL,
        moves = moves + 1, last_move = %(move)s::assay.task_move, last_moved_at = assay.assay_now(),
        last_actor = 'ann',
        last_reason = 'by hand', error_code = coalesce(%(code)s, error_code),
        review_reason = coalesce(%(reason)s, review_reason)
    WHERE record_id = %(record)s
    RETURNING task_id
"""


async def _by_hand(url: str, pool: Pool, vault: Vault, main: Line) -> None:
    line = await _line(pool, vault, "people", register(url, "people", "m1"), "people.jsonl")
    for name in ("approved", "refused", "reopened"):
        await line.refer(line.record(name))
    await line.accept(line.record("demoted"))
    await line.accept(line.record("withdrawn"))
    await line.refuse(line.record("closed"))
    await line.claim(line.record("shadow"), line.record("erased"))
    with psycopg.connect(url) as connection:

        def move(
            record: str, move: str, state: str, code: str | None = None, reason: str | None = None
        ) -> int:
            terms = {"record": record, "move": move, "state": state, "code": code, "reason": reason}
            return int(connection.execute(_MOVE, terms).fetchall()[0][0])

        for record, verdict, state in (("approved", "approve", "reviewed"), ("refused", "reject", "rejected"),
                                       ("reopened", "approve", "reviewed")):  # fmt: skip
            connection.execute(
                "UPDATE assay.review_items SET state = 'decided' WHERE task_id = %s",
                (move(record, verdict, state),),
            )
        for record, verdict in (("reopened", "reopen"), ("demoted", "demote")):
            connection.execute(
                "INSERT INTO assay.review_items (task_id, version_id, reason, blind, created_at) "
                "VALUES (%s, %s, 'second look', false, assay.assay_now())",
                (move(record, verdict, "review_pending", reason="second look"), line.version_id),
            )
        connection.execute(
            "INSERT INTO assay.dead_letters (task_id, attempt_id, version_id, error_code, failure_class, "
            "errors, fields, fingerprint, attempts, first_attempt_at, last_attempt_at) "
            "SELECT task_id, attempt_id, %s, 'withdrawn', 'policy', '[]', '{}', "
            "assay.dead_letter_fingerprint('withdrawn', NULL, '[]'), 1, finished_at, finished_at "
            "FROM assay.annotation_outputs WHERE task_id = %s",
            (line.version_id, move("withdrawn", "withdraw", "quarantined", code="withdrawn")),
        )
        connection.execute(
            "INSERT INTO assay.annotation_outputs (task_id, attempt_id, finished_at) "
            "SELECT task_id, attempt_id, at FROM assay.task_history WHERE task_id = %s AND move = 'observe'",
            (move("shadow", "observe", "shadowed"),),
        )
        move("erased", "erase", "erased")
        connection.execute(
            "DELETE FROM assay_vault.texts x USING assay.inputs i "
            "WHERE i.record_id = 'erased' AND x.text_ref = i.encrypted_text_ref"
        )
        connection.execute("DELETE FROM assay.inputs WHERE record_id = 'erased'")


def _dead_letters(url: str) -> None:
    """Dead letters that somebody has, had, and closed."""
    store, acts = DeadLetterStore(url), DeadLetterActs(url)

    def letter(record: str) -> int:
        (row,) = store.envelopes(LetterFilter(record_id=record))
        return int(str(row["dead_letter_id"]))

    acts.assign([letter("exhausted"), letter("policy")], owner="ann", actor="bob")
    acts.unassign([letter("policy")], actor="ann", reason="not mine")
    acts.close([letter("closed")], actor="ann", reason="sent by mistake")
