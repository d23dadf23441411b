"""Isolated pieces become inputs: claimed and parked for the workers of a pipeline version, with their fix."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

from assay.adapters.postgres.claim_store import ClaimStore
from assay.adapters.postgres.isolated_store import open_pieces
from assay.adapters.postgres.owner_lease import OwnerLease
from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.session import Connection, Pool, transact
from assay.domain.identity import InputKey, InputRecord, MalformedInput, SourceItem
from assay.domain.isolated import IsolatedPiece
from assay.domain.work import Offer, Verdict
from assay.ports import VaultPort

# Why tasks of fixed pieces wait: workers take them up.
ISOLATED_FIXED: Final = "isolated_fixed"


class FixOutcome(StrEnum):
    """What became of one isolated record."""

    FIXED = "fixed"
    KNOWN = "known"
    ENDED_BEFORE = "ended_before"
    MALFORMED = "malformed"
    CONFLICT = "conflict"
    ERASED = "erased"


@dataclass(frozen=True, slots=True)
class Fix:
    """What mended the pieces (`corrected_bytes`, `mapping`, `input_version`), who says so and why."""

    kind: str
    reason: str
    author: str
    mapping: str | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """The answer for one isolated record.

    `key` names the input that it is or would be; `error_type` and `path` tell why there is none.
    """

    isolated_id: int
    outcome: FixOutcome
    key: InputKey | None = None
    error_type: str | None = None
    path: str = ""


ReadPiece = Callable[[IsolatedPiece], Awaitable[SourceItem]]


class IsolatedFixes:
    """Fixes of isolated records, for one pipeline version."""

    def __init__(self, pool: Pool, vault: VaultPort, *, version_id: int, author: str) -> None:
        self._pool = pool
        self._vault = vault
        self._version_id = version_id
        # No lease is held: what is claimed here is parked before anybody sees it.
        self._claims = ClaimStore(
            pool, vault, version_id=version_id, lease=OwnerLease(author), lease_seconds=0.0
        )
        self._sql = queries("isolated")

    async def read(
        self, isolated_ids: Sequence[int], read: ReadPiece
    ) -> list[tuple[IsolatedPiece, SourceItem]]:
        """The pieces, each with the record that it is by `read`, or why it is none. Nothing is changed."""
        pieces = await transact(self._pool, partial(self._pieces, list(isolated_ids)))
        return [(piece, await read(piece)) for piece in pieces]

    async def fix(
        self, items: Sequence[tuple[int, int, SourceItem]], fix: Fix, draw: Callable[[InputRecord], Offer]
    ) -> list[Fixed]:
        """Records for isolated ids (with the id of the source) become inputs, or are found to be known.

        One transaction: input, task, fix and state change together, and only for what is open still. Twice
        changes nothing.
        """
        return await transact(self._pool, partial(self._fix, items, fix, draw))

    async def _pieces(self, isolated_ids: list[int], connection: Connection) -> list[IsolatedPiece]:
        sealed = await self._all(connection, "isolated_sealed", {"isolated_ids": isolated_ids})
        return open_pieces(sealed, self._vault)

    async def _fix(
        self,
        items: Sequence[tuple[int, int, SourceItem]],
        fix: Fix,
        draw: Callable[[InputRecord], Offer],
        connection: Connection,
    ) -> list[Fixed]:
        terms = {"isolated_ids": [isolated_id for isolated_id, _, _ in items]}
        held = {row[0] for row in await self._all(connection, "isolated_lock_open", terms)}
        answers: list[Fixed] = []
        offered: dict[int, list[tuple[int, Offer]]] = {}
        for isolated_id, source_id, item in items:
            if isolated_id not in held:
                answers.append(Fixed(isolated_id, FixOutcome.ENDED_BEFORE))
            elif isinstance(item, MalformedInput):
                answers.append(Fixed(isolated_id, FixOutcome.MALFORMED, None, item.error_type, item.path))
            else:
                offered.setdefault(source_id, []).append((isolated_id, draw(item)))
        for source_id, offers in sorted(offered.items()):
            answers += await self._admit(connection, source_id, offers)
        await self._resolve(connection, answers, fix)
        return answers

    async def _admit(
        self, connection: Connection, source_id: int, offers: Sequence[tuple[int, Offer]]
    ) -> list[Fixed]:
        """Offers, in order, as parked tasks; several pieces may turn out to be one record."""
        claims = await self._claims.park_in(
            connection, source_id, [offer for _, offer in offers], ISOLATED_FIXED
        )
        won = {id(record) for record, _ in claims.won}
        verdicts = {id(found.record): found.verdict for found in claims.not_won}
        return [
            Fixed(
                isolated_id,
                FixOutcome.FIXED if id(offer.record) in won else _OUTCOMES[verdicts[id(offer.record)]],
                offer.record.key,
            )
            for isolated_id, offer in offers
        ]

    async def _resolve(self, connection: Connection, answers: Sequence[Fixed], fix: Fix) -> None:
        done = [(a.isolated_id, a.key) for a in answers if a.outcome in _RESOLVED and a.key is not None]
        if not done:
            return
        terms: dict[str, Any] = {
            "isolated_ids": [isolated_id for isolated_id, _ in done],
            "record_ids": [key.record_id for _, key in done],
            "input_versions": [key.input_version for _, key in done],
            "version_id": self._version_id, "actor": fix.author, "reason": fix.reason, "fix": fix.kind,
            "mapping": fix.mapping,
        }  # fmt: skip
        await connection.execute(self._sql["isolated_fix"], terms)
        await connection.execute(self._sql["isolated_resolve"], terms)

    async def _all(self, connection: Connection, name: str, terms: Any) -> list[tuple[Any, ...]]:
        cursor = await connection.execute(self._sql[name], terms)
        return await cursor.fetchall()


_OUTCOMES: Final = {
    Verdict.SETTLED: FixOutcome.KNOWN,
    Verdict.IN_PROGRESS: FixOutcome.KNOWN,
    Verdict.WON: FixOutcome.KNOWN,
    Verdict.CONFLICT: FixOutcome.CONFLICT,
    Verdict.ERASED: FixOutcome.ERASED,
}
_RESOLVED: Final = frozenset({FixOutcome.FIXED, FixOutcome.KNOWN})
