"""Letting items of a replay out, page by page; killed anywhere and run again, it does nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import uuid4

from assay.adapters.postgres.claim_store import ClaimStore
from assay.adapters.postgres.owner_lease import OwnerLease
from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.record_keys import RecordKeys
from assay.adapters.postgres.session import Connection, Pool, columns, transact
from assay.domain.failures import Unreadable
from assay.domain.identity import Attributes, InputKey, InputRecord, SourcePosition
from assay.domain.replays import MOST_REPLAYS, Counts, Next, ReplayState, Step, next_step
from assay.domain.sealing import text_aad
from assay.domain.work import Offer
from assay.ports import VaultPort

REPLAYED: Final = "replay"
PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Released:
    """What a page came to: the step that was taken, the replay's state, and where its items stand now."""

    step: Step
    state: ReplayState
    counts: Counts


class ReplayRelease:
    """Lets one replay's items out to the workers of the version that runs them."""

    def __init__(
        self, pool: Pool, vault: VaultPort, *, version_id: int, actor: str,
        draw: Callable[[InputRecord], Offer],
    ) -> None:  # fmt: skip
        self._pool = pool
        self._vault = vault
        self._version_id = version_id
        self._actor = actor
        self._draw = draw
        self._keys = RecordKeys(vault)
        # No lease is held: what is claimed here is parked before anybody sees it.
        self._claims = ClaimStore(
            pool, vault, version_id=version_id, lease=OwnerLease(actor), lease_seconds=0.0
        )
        self._sql = queries("replays")
        self._claim_sql = queries("claim")

    async def page(self, replay_id: int, *, page: int = PAGE) -> Released:
        """Take the next step of a replay, in one transaction."""
        return await transact(self._pool, partial(self._page, replay_id, page))

    async def _page(self, replay_id: int, page: int, connection: Connection) -> Released:
        ((state, stage, sample, stop_loss, _, kind, to_version),) = await self._all(
            connection, "replay_hold", {"replay_id": replay_id}
        )
        await connection.execute(self._sql["replay_overtake"], {"replay_id": replay_id})
        counts = await self._counts(connection, replay_id)
        if state == ReplayState.PLANNED:
            await self._move(
                connection, replay_id, ReplayState.RUNNING, "started", f"by a fix of kind {kind}"
            )
            state = ReplayState.RUNNING
        if state != ReplayState.RUNNING:
            return Released(Step.WAIT, ReplayState(state), counts)
        following = next_step(counts, sample=sample, stop_loss=stop_loss, page=page)
        if following.step is Step.STOP:
            share = f"{counts.failed} of {counts.judged} failed again"
            await self._move(connection, replay_id, ReplayState.STOPPED, "stopped", f"stop-loss: {share}")
            await connection.execute(self._sql["replay_end_waiting"], {"replay_id": replay_id})
            counts = await self._counts(connection, replay_id)
            return Released(Step.STOP, ReplayState.STOPPED, counts)
        if following.step is Step.FINISH:
            await self._move(connection, replay_id, ReplayState.FINISHED, "finished", "no item is left")
            return Released(Step.FINISH, ReplayState.FINISHED, counts)
        if following.step is Step.RELEASE:
            terms = {"replay_id": replay_id, "to_version": to_version, "stage": stage}
            await self._release(connection, terms, following)
            counts = await self._counts(connection, replay_id)
        return Released(following.step, ReplayState.RUNNING, counts)

    async def _release(self, connection: Connection, terms: dict[str, Any], following: Next) -> None:
        items = await self._all(
            connection, "replay_page", terms | {"most": following.items, "most_replays": MOST_REPLAYS}
        )
        barred = [(place, bar) for place, _, _, bar in items if bar is not None]
        if barred:
            await connection.execute(
                self._sql["replay_bar_items"],
                columns(barred, ("places", "bars")) | {"replay_id": terms["replay_id"]},
            )
        open_items = [(place, task_id) for place, _, task_id, bar in items if bar is None]
        if not open_items:
            return
        if terms["to_version"] is None:
            runs = await self._restart(connection, terms["replay_id"], [task for _, task in open_items])
        else:
            runs = await self._claim_newer(connection, terms["replay_id"], [task for _, task in open_items])
        out = sorted((place, runs[task]) for place, task in open_items if task in runs)
        if lost := [(place, "not_claimed") for place, task in open_items if task not in runs]:
            await connection.execute(
                self._sql["replay_bar_items"],
                columns(lost, ("places", "bars")) | {"replay_id": terms["replay_id"]},
            )
        if not out:
            return
        written = columns(out, ("places", "runs")) | {"replay_id": terms["replay_id"]}
        await connection.execute(self._sql["replay_release"], written)
        await connection.execute(self._sql["replay_pace"], written)

    async def _restart(
        self, connection: Connection, replay_id: int, task_ids: Sequence[int]
    ) -> dict[int, int]:
        """The same annotations again: replayed and parked at once, for any worker of the version."""
        rows = [(task_id, uuid4()) for task_id in task_ids]
        terms = columns(rows, ("task_ids", "attempt_ids")) | {"replay_id": replay_id, "actor": self._actor}
        await connection.execute(self._sql["replay_restart"], terms)
        parked = {"task_ids": list(task_ids), "actor": self._actor, "reason": REPLAYED}
        await connection.execute(self._claim_sql["claim_park"], parked)
        return {task_id: task_id for task_id in task_ids}

    async def _claim_newer(
        self, connection: Connection, replay_id: int, task_ids: Sequence[int]
    ) -> dict[int, int]:
        """The newer version's annotations of the same inputs, claimed and parked; by the older task's id."""
        inputs = await self._all(connection, "replay_inputs", {"task_ids": list(task_ids)})
        texts = await self._keys.read_texts(connection, [row[2] for row in inputs])
        offers: dict[int, list[Offer]] = {}
        of_key: dict[InputKey, int] = {}
        for record_id, version, ref, sha256, source_id, partition, offset, line, priority, task_id in inputs:
            key = InputKey(record_id, version)
            if (text := self._text(key, sha256, texts.get(ref))) is None:
                continue
            record = InputRecord(
                record_id=record_id, input_version=version, text=text, sha256=sha256, source="",
                position=SourcePosition(partition, offset, line), attributes=Attributes(priority=priority),
            )  # fmt: skip
            of_key[key] = task_id
            offers.setdefault(source_id, []).append(self._draw(record))
        runs: dict[int, int] = {}
        for source_id, some in sorted(offers.items()):
            claims = await self._claims.park_in(connection, source_id, some, REPLAYED)
            runs |= {of_key[record.key]: task.task_id for record, task in claims.won}
        if runs:
            linked = columns(sorted(runs.items()), ("task_ids", "runs")) | {"replay_id": replay_id}
            await connection.execute(self._sql["replay_link"], linked)
        return runs

    def _text(self, key: InputKey, sha256: bytes, sealed: tuple[bytes, bytes] | None) -> str | None:
        if sealed is None:
            return None
        try:
            return self._vault.open(sealed[0], sealed[1], text_aad(key, sha256)).decode()
        except Unreadable:
            return None

    async def _counts(self, connection: Connection, replay_id: int) -> Counts:
        (row,) = await self._all(connection, "replay_counts", {"replay_id": replay_id})
        return Counts(*row)

    async def _move(
        self, connection: Connection, replay_id: int, to: ReplayState, act: str, reason: str
    ) -> None:
        terms = {"replay_id": replay_id, "state": to.value, "from_states": ["planned", "running"]}
        await connection.execute(self._sql["replay_move"], terms)
        written = {"replay_id": replay_id, "kind": act, "actor": self._actor, "reason": reason}
        await connection.execute(self._sql["replay_act"], written)

    async def _all(self, connection: Connection, name: str, terms: Any) -> list[tuple[Any, ...]]:
        cursor = await connection.execute(self._sql[name], terms)
        return await cursor.fetchall()
