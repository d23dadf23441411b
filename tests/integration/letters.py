"""Dead letters as tests need them, made through the real stores on a line of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import psycopg
from audit_situations import KEK, Line, register

from assay.adapters.postgres.audit_store import AuditStore
from assay.adapters.postgres.dead_letter_acts import DeadLetterActs
from assay.adapters.postgres.dead_letter_store import DeadLetterStore
from assay.adapters.postgres.session import make_pool
from assay.adapters.vault import Vault
from assay.domain.dead_letters import LetterFilter
from assay.domain.failures import FailureClass
from assay.domain.work import CallOutcome, CallRecord, ClaimedTask, Evidence, Finish, Passes, dead_letter

ANY: Final = LetterFilter(states=None)
COST: Final = Decimal("0.003")
TYPE_ERROR: Final = Evidence(FailureClass.CONTRACT, "malformed", (("/items/3/amount", "float_type"),))
REFUSED: Final = Evidence(FailureClass.POLICY, None, (("", "provider_refused"),))
EXHAUSTED: Final = Evidence(FailureClass.TRANSIENT, None, (("", "provider_timeout"),))


def at_item(number: int) -> Evidence:
    return Evidence(FailureClass.CONTRACT, "malformed", ((f"/items/{number}/amount", "float_type"),))


def refused(
    task: ClaimedTask, code: str = "schema_type_error", evidence: Evidence = TYPE_ERROR, cost: Decimal = COST
) -> Finish:
    """Refused for good, after one call that cost something."""
    call = CallRecord(1, CallOutcome.REJECTED, code=code, cost=cost, input_tokens=100, output_tokens=10)
    return dead_letter(task, code, evidence, Passes(code, None, (call,)))


@dataclass
class Place:
    """A pipeline version on a database of its own."""

    url: str
    line: Line

    @property
    def store(self) -> DeadLetterStore:
        return DeadLetterStore(self.url)

    @property
    def acts(self) -> DeadLetterActs:
        return DeadLetterActs(self.url)

    async def kill(self, record: str, code: str = "schema_type_error", evidence: Evidence = TYPE_ERROR,
                   **fields: Any) -> int:  # fmt: skip
        """A dead letter of a new record; its number."""
        (task,) = await self.line.claim(self.line.record(record, **fields))
        await self.line.finish(refused(task, code, evidence))
        return self.letter(record)

    def letter(self, record: str) -> int:
        """The latest dead letter of a record."""
        return int(
            str(self.store.envelopes(LetterFilter(states=None, record_id=record))[0]["dead_letter_id"])
        )

    def found(self, which: LetterFilter, **terms: Any) -> list[str]:
        """The records whose dead letters match, in order."""
        return [str(row["record_id"]) for row in self.store.envelopes(which, **terms)]

    def rows(self, query: str, *terms: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(query.encode(), terms).fetchall()

    def do(self, statement: str, *terms: object) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(statement.encode(), terms)

    def clean(self) -> None:
        assert AuditStore(self.url, Vault(KEK)).audit().broken == ()


@asynccontextmanager
async def placed(url: str) -> AsyncIterator[Place]:
    pool = make_pool(url, size=3)
    await pool.open()
    try:
        line = Line(pool, Vault(KEK), "tickets", register(url, "tickets", "m1", "first"), 0)
        line.source_id = await line.sources.register(
            kind="file", name="in.jsonl", fingerprint="f", mapping="{}"
        )
        yield Place(url, line)
    finally:
        await pool.close()
