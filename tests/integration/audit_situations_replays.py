"""Replays as `audit_situations` needs them: one that is over, one under way, one that a person stopped."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from audit_situations import KEK, REFUSED, Line, register

from assay.adapters.postgres.replay_release import ReplayRelease
from assay.adapters.postgres.replay_store import NewFix, Pacing, ReplayStore, Selection
from assay.adapters.postgres.session import Pool, make_pool
from assay.adapters.vault import Vault
from assay.domain.replays import Counts, FixKind, ReplayState, Step
from assay.domain.sealing import response_aad
from assay.domain.work import (
    CallOutcome,
    CallRecord,
    ClaimedTask,
    Finish,
    FinishOutcome,
    Offer,
    Passes,
    SealedResponse,
    dead_letter,
)

JSON_INVALID: Final = Passes("json_invalid", None, (CallRecord(1, CallOutcome.REJECTED, cost=Decimal(0)),))
AT_ONCE: Final = Pacing(sample=1, stop_loss=1.0)


@dataclass
class Replays:
    """A pipeline of two versions, and its replays."""

    url: str
    pool: Pool
    vault: Vault
    old: Line
    new: Line

    @property
    def store(self) -> ReplayStore:
        return ReplayStore(self.url)

    def refused(self, task: ClaimedTask, days: float = 7.0) -> Finish:
        """Refused by its contract, the response kept."""
        aad = response_aad(task.identity, task.sha256, task.attempt_id.bytes)
        kept = SealedResponse(self.vault.seal(task.key, b"not json", aad), False, 1, days)
        return dead_letter(task, "json_invalid", REFUSED, JSON_INVALID, kept)

    async def refuse(self, *names: str, days: float = 7.0) -> None:
        tasks = await self.old.claim(*(self.old.record(name) for name in names))
        answers = await self.old.finish(*(self.refused(task, days) for task in tasks))
        assert set(answers) == {FinishOutcome.DONE}

    def plan(
        self, kind: FixKind, ids: list[int] | None = None, pacing: Pacing = AT_ONCE, *, newer: bool = False
    ) -> int:
        """A fix and a plan for it."""
        to = self.new.version_id if newer else None
        name, version = self.old.name, self.old.version_id
        fix = self.store.record_fix(NewFix(name, kind, "mended", "ann", version, to))
        chosen = Selection(ids=None if ids is None else tuple(ids))
        return self.store.plan(fix, chosen, pacing, actor="ann", reason="planned")

    async def page(self, replay: int, *, newer: bool = False) -> tuple[Step, Counts]:
        """One step of a replay."""
        line = self.new if newer else self.old
        release = ReplayRelease(
            self.pool, self.vault, version_id=line.version_id, actor="ann",
            draw=lambda record: Offer(record, 0.0, False),
        )  # fmt: skip
        released = await release.page(replay)
        return released.step, released.counts

    async def run(self, replay: int, refused: set[str], *, newer: bool = False) -> None:
        """All of it; the records of `refused` are refused again."""
        line = self.new if newer else self.old
        step = Step.RELEASE
        while step is not Step.FINISH:
            step, _ = await self.page(replay, newer=newer)
            for task in await line.claims().claim_waiting(100):
                again = self.refused(task) if task.record_id in refused else line.accepted(task)
                assert await line.finish(again) == [FinishOutcome.DONE]


async def replays_of(url: str, pool: Pool) -> Replays:
    """Two versions of one pipeline, without any record yet."""
    vault = Vault(KEK)
    lines = [Line(pool, vault, "replayed", register(url, "replayed", model), 0) for model in ("m1", "m2")]
    for line in lines:
        line.source_id = await line.sources.register(
            kind="file", name="replayed.jsonl", fingerprint="replayed.jsonl", mapping="{}"
        )
    return Replays(url, pool, vault, *lines)


async def build_replays(url: str) -> None:
    """A replay that is over (one item succeeded, one failed again), one that is out, one that was stopped."""
    pool = make_pool(url, size=2)
    await pool.open()
    try:
        replays = await replays_of(url, pool)
        await replays.refuse("replay mends", "replay fails")
        await replays.run(replays.plan(FixKind.NEW_SCHEMA, newer=True), refused={"replay fails"}, newer=True)
        await replays.refuse("replay allows")
        await replays.run(replays.plan(FixKind.APPROVAL), refused={"replay fails"})
        stopped = replays.plan(FixKind.LIMIT_CHANGED)
        assert replays.store.move(stopped, ReplayState.STOPPED, "stopped", actor="ann", reason="not now")
        await replays.refuse("replay waits")
        under_way = replays.plan(FixKind.DEPENDENCY_RESTORED)
        step, counts = await replays.page(under_way)
        assert (step, counts.released, counts.waiting) == (Step.RELEASE, 1, 1)
    finally:
        await pool.close()
