"""Spend caps: what workers reserve of them, and how people set and read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

import psycopg
from psycopg.rows import TupleRow, tuple_row

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.reading import Row, grouped, reading, rows
from assay.adapters.postgres.session import Connection, Pool, transact
from assay.domain.failures import ConfigurationError
from assay.domain.spend import Caps, Standing

# The class of the advisory locks under which reservations are granted, one lock per pipeline.
BUDGET_LOCKS: Final = 0x41535342

CapKind = Literal["day", "total"]


class ReservationStore:
    """What one worker holds of one pipeline's caps. A reservation lives `seconds` from its last renewal."""

    def __init__(self, pool: Pool, *, name: str, version_id: int, worker: str, seconds: float) -> None:
        self._pool = pool
        self._worker = {"name": name, "worker": worker}
        self._version_id = version_id
        self._seconds = seconds
        self._sql = queries("budgets")
        self._reserved = False

    async def renew(self, *, held: Decimal, wanted: Decimal, step: Decimal) -> Standing:
        """Hold on to `held`, and to as much of `wanted` more as the caps leave, if that is a step at least.

        Without a cap nothing is written. Safe to run twice: amounts are absolute.
        """
        terms = {"held": held, "wanted": wanted, "step": step, "seconds": self._seconds}
        return await transact(self._pool, lambda c: self._renew(c, terms))

    async def _renew(self, connection: Connection, terms: Mapping[str, Any]) -> Standing:
        caps = _caps(await self._all(connection, "budget_caps", self._worker))
        if caps is None:
            await self._give_back(connection)
            return Standing(None, granted=terms["held"])
        lock = {"lock_class": BUDGET_LOCKS, "name": self._worker["name"]}
        await connection.execute(self._sql["budget_lock"], lock)
        await connection.execute(self._sql["budget_forget_ended"], self._worker)
        ((today, total, others, amount),) = await self._all(
            connection, "budget_grant", {**self._worker, **terms}
        )
        self._reserved = True
        return Standing(caps, today, total, others, amount)

    async def raise_reserve(self, reserve: Decimal) -> Decimal:
        """A lost call of the version is charged at `reserve` at least from now on; returns what it is charged
        at. Safe to run twice.
        """
        terms = {"version_id": self._version_id, "reserve": reserve}
        ((charged,),) = await transact(self._pool, lambda c: self._all(c, "budget_raise_reserve", terms))
        return Decimal(charged)

    async def longest_text(self) -> int:
        """Bytes, sealed, of the longest text among the version's unfinished tasks; 0 without any."""
        terms = {"version_id": self._version_id}
        ((longest,),) = await transact(self._pool, lambda c: self._all(c, "budget_longest_text", terms))
        return int(longest)

    async def release(self) -> None:
        """Give everything back; nothing is in hand any more."""
        await transact(self._pool, self._give_back)

    async def _give_back(self, connection: Connection) -> None:
        if self._reserved:
            await connection.execute(self._sql["budget_release"], self._worker)

    async def _all(self, connection: Connection, name: str, parameters: Mapping[str, Any]) -> list[TupleRow]:
        cursor = await connection.execute(self._sql[name], parameters)
        return await cursor.fetchall()


def _caps(found: list[TupleRow]) -> Caps | None:
    if not found:
        return None
    caps: dict[str, Decimal] = {kind: cap for kind, cap, _ in found}
    return Caps(caps.get("day"), caps.get("total"), found[0][2])


@dataclass(frozen=True, slots=True)
class PipelineBudget:
    """One pipeline's caps and spending, as `assay budget` shows them.

    `pipeline` is a row of `budget_pipelines`, `versions` are rows of `budget_versions`. `counted_today` and
    `counted` are what counts against the caps: calls of unknown cost at their version's reserve.
    """

    pipeline: Row
    versions: list[Row]
    counted_today: Decimal
    counted: Decimal

    def left(self, kind: CapKind) -> Decimal | None:
        """What a cap leaves besides what workers hold; below 0 by how much more was spent. None without cap.

        What workers hold covers calls that they finished within the last second too, so that it may look as
        if both were above the cap together: that leaves 0.
        """
        cap = self.pipeline[f"{kind}_cap"]
        counted = self.counted_today if kind == "day" else self.counted
        reserved = self.pipeline["reserved"]
        if not isinstance(cap, Decimal) or not isinstance(reserved, Decimal):
            return None
        return max(cap - counted - reserved, Decimal(0)) if counted <= cap else cap - counted


class BudgetStore:
    """Synchronous: used by commands."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sql = queries("budgets")

    def read(self, name: str | None = None) -> list[PipelineBudget]:
        """Every pipeline's budget, or one's, at one moment."""
        with reading(self._url) as connection:
            pipelines = rows(connection, self._sql["budget_pipelines"], {"name": name})
            by_name = grouped(rows(connection, self._sql["budget_versions"], {"name": name}), "name")
        return [_budget(row, by_name.get(row["name"], [])) for row in pipelines]

    def set(self, name: str, caps: Mapping[CapKind, Decimal], currency: str, actor: str) -> None:
        """Set caps, all or none; who did it is kept. Raises `ConfigurationError` for two currencies."""
        with psycopg.connect(self._url, row_factory=tuple_row) as connection:
            terms = {"name": name, "currency": currency, "kinds": list(caps)}
            other = connection.execute(self._sql["budget_other_currency"], terms).fetchone()
            if other is not None:
                raise ConfigurationError(
                    f"The other cap of {name} is in {other[0]}; a pipeline's caps are in one currency."
                )
            for kind, cap in caps.items():
                change = {"name": name, "kind": kind, "cap": cap, "currency": currency, "actor": actor}
                connection.execute(self._sql["budget_set"], change)

    def clear(self, name: str, kind: CapKind, actor: str) -> bool:
        """Take a cap away; returns False when there was none."""
        with psycopg.connect(self._url, row_factory=tuple_row) as connection:
            change = {"name": name, "kind": kind, "actor": actor}
            return connection.execute(self._sql["budget_clear"], change).fetchone() is not None


def _budget(pipeline: Row, versions: list[Row]) -> PipelineBudget:
    def counted(version: Row, when: str) -> Decimal:
        unknown = Decimal(str(version[f"calls_unknown{when}"]))
        return Decimal(str(version[f"spent{when}"])) + unknown * Decimal(str(version["call_reserve"]))

    today, total = (sum((counted(v, when) for v in versions), Decimal(0)) for when in ("_today", ""))
    return PipelineBudget(pipeline, versions, today, total)
