"""Stores with one clause of their SQL taken out: negative controls that must fail the tests of the real ones.

Each variant is an edit of the shipped query, so that it stays the shipped query but for that clause.
"""

from __future__ import annotations

from typing import Any, LiteralString

from assay.adapters.postgres.claim_store import ClaimStore
from assay.adapters.postgres.finish_store import RELEASE_LOCKS, FinishStore
from assay.adapters.postgres.queries import queries
from assay.domain.work import Claims, NotWon


def edited(
    query: LiteralString, clause: LiteralString, instead: LiteralString, times: int = 1
) -> LiteralString:
    """The query with a clause replaced; fails when the shipped query has it in fewer or more places."""
    assert query.count(clause) == times, f"the shipped query has {clause!r} {query.count(clause)} times"
    return query.replace(clause, instead)


def one_statement_claim() -> LiteralString:
    """Claim and report in one statement: whether each offer was won, and the state of its task."""
    sql = queries("claim")
    read = edited(
        sql["claim_read"], "SELECT\n    i.input_sha256,\n    t.state::text,", "SELECT t.state::text,"
    )
    return (
        "WITH won AS (" + sql["claim_tasks"] + "), found AS (" + read + ") "
        "SELECT EXISTS (SELECT FROM won), found.state FROM found"
    )


class ReadOnceClaims(ClaimStore):
    """Reads once: an offer that was not won counts as held by somebody, whatever has become of it."""

    _reads = 0

    async def _claim(self, *arguments: Any) -> Claims:
        self._reads = 0
        return await super()._claim(*arguments)

    async def _read(self, *arguments: Any, again: bool) -> tuple[list[NotWon | None], list[int]]:
        self._reads += 1
        found, to_end = await super()._read(*arguments, again=again)
        return (found if self._reads == 1 else [None] * len(found)), to_end


class AnyContentClaims(ClaimStore):
    """Makes tasks for an identity, whatever content is stored under it."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        variant = edited(self._sql["claim_tasks"], " AND i.input_sha256 = o.input_sha256", "")
        self._sql = self._sql | {"claim_tasks": variant}


class UnorderedClaims(ClaimStore):
    """Takes locks in the order of the batch, not in key order."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        order: LiteralString = 'ORDER BY o.record_id COLLATE "C", o.input_version'
        self._sql = self._sql | {
            name: edited(self._sql[name], order, "") for name in ("claim_register_inputs", "claim_tasks")
        }


_FENCE: LiteralString = "AND t.attempt_id = o.attempt_id AND t.state = 'processing'"


class StateFencedFinishes(FinishStore):
    """Finishes by task and state: whoever holds the lease, an attempt may end it."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        variant = edited(self._sql["finish_tasks"], _FENCE, "AND t.state = 'processing'")
        self._sql = self._sql | {"finish_tasks": variant}


class UnfencedFinishes(FinishStore):
    """Finishes by task alone."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        variant = edited(self._sql["finish_tasks"], _FENCE, "")
        self._sql = self._sql | {"finish_tasks": variant}


class UnlockedFinishes(FinishStore):
    """Reads `frozen` without the version's lock."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._sql = self._sql | {
            "finish_lock_versions": edited(
                self._sql["finish_lock_versions"],
                "SELECT pg_advisory_xact_lock_shared(%(lock_class)b::int4, u.version_id)",
                "SELECT %(lock_class)b::int4, u.version_id",
            )
        }


class LateLockedFinishes(FinishStore):
    """Takes the version's lock in the statement that decides: its snapshot is older than the lock."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        lock = self._sql["finish_lock_versions"]
        variant = edited(
            self._sql["finish_tasks"],
            "assay.last_outage(%(account)b::text) AS outage_until),",
            "assay.last_outage(%(account)b::text) AS outage_until FROM "
            "pg_advisory_xact_lock_shared(%(lock_class)b::int4, %(version_id)b::int4)),",
        )
        self._sql = self._sql | {
            "finish_lock_versions": edited(
                lock, "pg_advisory_xact_lock_shared(%(lock_class)b::int4, u.version_id)",
                "%(lock_class)b::int4, u.version_id",
            ),
            "finish_tasks": variant,
        }  # fmt: skip

    def _offer(self, *arguments: Any) -> dict[str, Any]:
        return super()._offer(*arguments) | {
            "lock_class": RELEASE_LOCKS,
            "version_id": self._version_id,
        }
