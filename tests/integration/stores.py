"""One pipeline version in a test database, and workers that drive the real stores from threads of their own.

A `Bench` moves the database's clock instead of waiting. A `Station` is one worker: an event loop, a pool and
its stores in one thread, so that two stations meet in the database as two processes would.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import secrets
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from types import TracebackType
from typing import Any, Final, LiteralString, Self, TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import TupleRow

from assay.adapters.postgres.claim_store import ClaimStore
from assay.adapters.postgres.finish_store import FinishStore
from assay.adapters.postgres.owner_lease import OwnerLease
from assay.adapters.postgres.renewal_store import RenewalStore
from assay.adapters.postgres.session import make_pool
from assay.adapters.postgres.source_store import SourceStore
from assay.adapters.postgres.version_store import VersionStore
from assay.adapters.vault import Vault
from assay.domain.digest import definition_digest
from assay.domain.identity import InputRecord, SourcePosition
from assay.domain.work import ClaimedTask, Claims, Finish, Finished, Offer
from assay.ports import HeldLease, Probe

PATIENCE: Final = 60.0
RESERVE: Final = Decimal("0.01")
LEASE: Final = 90.0

T = TypeVar("T")


@dataclass
class Bench:
    """A version of a line in a test database; `db` is a connection for looking and for the clock."""

    url: str
    db: psycopg.Connection[TupleRow]
    name: str
    version_id: int
    source_id: int
    vault: Vault
    offsets: Iterator[int] = field(default_factory=itertools.count)

    def offer(
        self, record_id: str, version: int = 1, *, text: str | None = None, selected: bool = False
    ) -> Offer:
        """A record at the next position of the source; the same arguments give the same content."""
        position = SourcePosition(0, next(self.offsets))
        record = InputRecord(record_id, version, text or f"text of {record_id}", "in.jsonl", position)
        return Offer(record, 0.5 if selected else 0.0, selected)

    def advance(self, seconds: float) -> None:
        """Move the database's clock."""
        self.db.execute(
            "UPDATE assay.instance SET clock_shown = clock_shown + make_interval(secs => %s)", (seconds,)
        )

    def stop_clock(self) -> None:
        """From here on time passes by `advance` alone."""
        self.db.execute(
            "UPDATE assay.instance SET clock_shown = assay.assay_now(), clock_real = clock_timestamp(), "
            "clock_scale = 0"
        )

    def rows(self, query: LiteralString, *parameters: object) -> list[TupleRow]:
        """The rows of a query."""
        return self.db.execute(query, parameters).fetchall()

    def one(self, query: LiteralString, *parameters: object) -> Any:
        """The only value of a query."""
        ((value,),) = self.rows(query, *parameters)
        return value


@contextmanager
def open_bench(url: str) -> Iterator[Bench]:
    """A bench with a version of its own; the database's clock runs."""
    name = f"line-{secrets.token_hex(4)}"
    with psycopg.connect(url, autocommit=True, application_name="bench") as db:
        # Benches of one database share its key: it takes no second one.
        vault = Vault(hashlib.sha256(url.encode()).digest())
        version_id, source_id = register(url, name, "m"), register_source(db, name)
        yield Bench(url, db, name, version_id, source_id, vault)


def register(url: str, name: str, model: str) -> int:
    """A version of the line `name` whose calls are charged at RESERVE when nobody reports them."""
    definition = {"format": 1, "model": model}
    version_id, _ = VersionStore(url).register(
        name=name, pipeline_version=definition_digest(definition), definition=definition, label=None,
        code_commit=None, call_reserve=RESERVE,
    )  # fmt: skip
    return version_id


def register_source(db: psycopg.Connection[TupleRow], name: str) -> int:
    """A source for the line."""
    row = db.execute(
        "INSERT INTO assay.sources (kind, name, fingerprint, mapping, first_read_at) "
        "VALUES ('file', %s, 'f', '{}', assay.assay_now()) RETURNING source_id",
        (name,),
    ).fetchone()
    assert row is not None
    return int(row[0])


class Station:
    """One worker (`actor`) with its stores in a thread of its own.

    `url` replaces the bench's, for a way to the database that can be disturbed. The store classes can be
    replaced by variants of them.
    """

    def __init__(
        self,
        bench: Bench,
        actor: str,
        *,
        url: str | None = None,
        lease_seconds: float = LEASE,
        statement_timeout: float = 60.0,
        claims: type[ClaimStore] = ClaimStore,
        finishes: type[FinishStore] = FinishStore,
        probe: Probe = lambda _: None,
    ) -> None:
        self.actor = actor
        self.pool = make_pool(url or bench.url, size=1, statement_timeout_seconds=statement_timeout)
        self._lease_seconds = lease_seconds
        self._claims, self._finishes, self._probe = claims, finishes, probe
        self.renewals = RenewalStore(bench.url, lease=OwnerLease(actor), lease_seconds=lease_seconds)
        self.work_for(bench)
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name=f"station-{actor}", daemon=True)

    def work_for(self, bench: Bench) -> None:
        """Make the stores for a bench of the same database."""
        version_id, actor, probe = bench.version_id, self.actor, self._probe
        self.bench = bench
        self.renewals.close()
        self.lease = OwnerLease(actor)
        self.renewals = RenewalStore(bench.url, lease=self.lease, lease_seconds=self._lease_seconds)
        self.claims = self._claims(
            self.pool, bench.vault, version_id=version_id, lease=self.lease, probe=probe,
            lease_seconds=self._lease_seconds,
        )  # fmt: skip
        self.finishes = self._finishes(
            self.pool, name=bench.name, version_id=version_id, actor=actor, probe=probe
        )
        self.sources = SourceStore(self.pool, bench.vault, version_id=version_id)

    def __enter__(self) -> Self:
        self._thread.start()
        self._loop = self._started.result(PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE)
        self.renewals.close()

    def _serve(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as failure:
            if not self._started.done():
                self._started.set_exception(failure)
            raise

    async def _live(self) -> None:
        await self.pool.open()
        self._started.set_result(asyncio.get_running_loop())
        await self._end.wait()
        await self.pool.close()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin something on this station's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on this station's loop."""
        return self.start(work).result(PATIENCE)

    def claim(self, offers: Sequence[Offer]) -> Claims:
        return self.run(self.claims.claim(self.bench.source_id, offers))

    def claim_one(self, offer: Offer) -> ClaimedTask:
        """Claim a record that is there to be claimed."""
        ((_, task),) = self.claim([offer]).won
        return task

    def renew(self, tasks: Sequence[ClaimedTask]) -> set[UUID]:
        """One renewal of the worker's lease; the attempts that are still its own."""
        return self.renewals.renew(
            [HeldLease(task.task_id, task.attempt_id, task.lease_id) for task in tasks]
        )

    def claim_waiting(self, most: int = 100) -> list[ClaimedTask]:
        return self.run(self.claims.claim_waiting(most))

    def finish(self, *finishes: Finish) -> list[Finished]:
        """Finish in one transaction; the answers in the order given."""
        answers = self.run(self.finishes.finish(finishes))
        return [answers[each.task.attempt_id] for each in finishes]


@contextmanager
def stations(bench: Bench, count: int, **settings: Any) -> Iterator[list[Station]]:
    """Several workers, alike but for their names."""
    with ExitStack() as stack:
        yield [stack.enter_context(Station(bench, f"worker-{number}", **settings)) for number in range(count)]


def race(*runs: tuple[Station, Callable[[], Awaitable[T]]]) -> list[T]:
    """Begin all at once, each on its own station, and wait for all."""
    barrier = threading.Barrier(len(runs))

    async def run(work: Callable[[], Awaitable[T]]) -> T:
        barrier.wait(PATIENCE)
        return await work()

    futures = [station.start(run(work)) for station, work in runs]
    return [future.result(PATIENCE) for future in futures]
