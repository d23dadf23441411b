"""Vault keys as the database knows them, and rewrapping what an old one wraps under the current one.

Ciphertexts are never touched: a rewrap changes `wrapped_key` and `kek_id` of a row, in one update that finds
the row as it was read or leaves it alone. So a rotation may be killed anywhere and started again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

import psycopg
from psycopg import errors
from psycopg.rows import TupleRow, tuple_row
from psycopg_pool import PoolTimeout

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.session import Pool, columns
from assay.domain.failures import AssayError, ConfigurationError, Unreadable
from assay.telemetry import tell

# Rows per window: some milliseconds of work, so that an interrupt is heard and a lock is short.
WINDOW: Final = 2000
# How often a worker looks which key is current.
FOLLOW_SECONDS: Final = 1.0
TABLES: Final = ("texts", "raws", "subject_keys")
_WINDOW: Final = {"texts": "window_texts", "raws": "window_raws", "subject_keys": "window_subject_keys"}
_REWRAP: Final = {"texts": "rewrap_texts", "raws": "rewrap_raws", "subject_keys": "rewrap_subject_keys"}
# Windows are read in key order and rows found by their key, however old the statistics are.
_SESSION: Final = " ".join(
    f"-c {setting}"
    for setting in ("plan_cache_mode=force_custom_plan", "enable_seqscan=off", "enable_hashjoin=off",
                    "enable_mergejoin=off")
)  # fmt: skip

_Connection = psycopg.Connection[TupleRow]


class RewrapPort(Protocol):
    """What a rotation needs of the vault."""

    @property
    def kek_id(self) -> str: ...

    def use(self, kek_id: str) -> None: ...

    def rewrap(self, wrapped: bytes, kek_id: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Wrapped:
    """How many texts, isolated pieces and subjects' keys one vault key wraps."""

    texts: int = 0
    raws: int = 0
    subject_keys: int = 0

    @property
    def all(self) -> int:
        """Their sum."""
        return self.texts + self.raws + self.subject_keys


@dataclass(slots=True)
class Sweep:
    """How far a sweep has come: rows looked at, rewrapped, and left because their key does not open."""

    seen: int = 0
    rewrapped: int = 0
    unreadable: int = 0


class VaultKeyStore:
    """Synchronous: used at start-up and by commands."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sql = queries("key_rotation")

    def states(self) -> dict[str, str]:
        """Every vault key that the database knows and its state: current, previous or retired."""
        with self._connect() as connection:
            return dict(connection.execute(self._sql["vault_keys"]).fetchall())

    def current(self) -> str | None:
        """The key that new records are sealed under; None before anything was."""
        with self._connect() as connection:
            return _current(connection)

    def first(self, kek_id: str) -> str:
        """Make this the current key where there is none yet; the current key, whoever made it that."""
        with self._connect() as connection:
            connection.execute(self._sql["use_first_key"], {"kek_id": kek_id})
            connection.commit()
            return _current(connection) or kek_id

    def change(self, kek_id: str) -> None:
        """Make another key current. Raises `ConfigurationError` for one that was in use before."""
        with self._connect() as connection:
            connection.execute(self._sql["replace_current_key"], {"kek_id": kek_id})
            connection.execute(self._sql["add_current_key"], {"kek_id": kek_id})
            if _current(connection) != kek_id:
                connection.rollback()
                raise ConfigurationError(
                    f"Vault key {kek_id} was in use in this database before; rotate to a new one."
                )

    def retire(self, kek_id: str) -> None:
        """Refuse rows under this key from here on. Waits for transactions that are writing some."""
        with self._connect() as connection:
            connection.execute(self._sql["writers_done"])
            connection.execute(self._sql["retire_key"], {"kek_id": kek_id})

    def wrapped(self) -> dict[str, Wrapped]:
        """What each vault key wraps. Reads all of the vault once."""
        with self._connect() as connection:
            return {row[0]: Wrapped(*row[1:]) for row in connection.execute(self._sql["rows_by_key"])}

    def samples(self, kek_id: str) -> list[bytes]:
        """A few keys that this vault key wraps."""
        with self._connect() as connection:
            return [row[0] for row in connection.execute(self._sql["sample_of_key"], {"kek_id": kek_id})]

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other rotations out while the block lasts. Raises `AssayError` where one runs."""
        # Some patience: the server may not have noticed yet that an earlier rotation was killed.
        with self._connect("-c lock_timeout=5s") as connection:
            connection.autocommit = True
            try:
                connection.execute(self._sql["only_rotation"])
            except errors.LockNotAvailable:
                raise AssayError("Another rotation of this vault is running; wait for it to end.") from None
            yield

    def sweep(self, vault: RewrapPort, heard: Callable[[Sweep], None]) -> Sweep:
        """Rewrap everything that is wrapped under another key than the vault's current one.

        `heard` is called after every window; an exception of its own ends the sweep between two windows.
        Raises `WrongVaultKey` for a row under a key that the ring lacks.
        """
        done = Sweep()
        with self._connect(_SESSION) as connection:
            for table in TABLES:
                after: int | str | None = None
                while (last := self._window(connection, table, after, vault, done)) is not None:
                    after = last
                    heard(done)
        return done

    def _window(
        self, connection: _Connection, table: str, after: int | str | None, vault: RewrapPort, done: Sweep
    ) -> int | str | None:
        """One window of rows; the key of its last one, None at the end."""
        where = {"after": after, "size": WINDOW, "kek_id": vault.kek_id}
        rows = connection.execute(self._sql[_WINDOW[table]], where).fetchall()
        old = [row for row in rows if row[2] is not None]
        pairs = [(row[0], row[2], fresh) for row in old if (fresh := _rewrapped(vault, row)) is not None]
        if pairs:
            given = columns(pairs, ("ids", "wrapped", "fresh")) | {"kek_id": vault.kek_id}
            done.rewrapped += connection.execute(self._sql[_REWRAP[table]], given).rowcount
        connection.commit()
        done.seen += len(rows)
        done.unreadable += len(old) - len(pairs)
        return rows[-1][0] if rows else None

    def _connect(self, options: str = "") -> _Connection:
        return psycopg.connect(
            self._url, row_factory=tuple_row, application_name="assay key", options=options
        )


def _current(connection: _Connection) -> str | None:
    row = connection.execute(queries("key_rotation")["current_key"]).fetchone()
    return None if row is None else str(row[0])


def _rewrapped(vault: RewrapPort, row: TupleRow) -> bytes | None:
    try:
        return vault.rewrap(row[2], row[1])
    except Unreadable:
        return None  # counted: its key does not open under the old vault key either


@asynccontextmanager
async def following(pool: Pool, vault: RewrapPort) -> AsyncIterator[None]:
    """Seal under the database's current key while the block lasts: looks every second, in the event loop."""
    follower = asyncio.create_task(_follow(pool, vault), name="vault-key")
    try:
        yield
    finally:
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)


async def _follow(pool: Pool, vault: RewrapPort) -> None:
    missing: str | None = None
    while True:
        await asyncio.sleep(FOLLOW_SECONDS)
        current = await _look(pool)
        if current is None or current in (vault.kek_id, missing):
            continue
        try:
            vault.use(current)
        except ConfigurationError:
            missing = current  # told once; until the old key is retired the work goes on under it
            tell("vault_key_missing", kek_id=current)
        else:
            tell("vault_key_changed", kek_id=current)


async def _look(pool: Pool) -> str | None:
    """The current key; None while the database does not answer: the worker itself deals with that."""
    try:
        async with pool.connection(timeout=FOLLOW_SECONDS) as connection:
            cursor = await connection.execute(queries("key_rotation")["current_key"])
            row = await cursor.fetchone()
    except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout):
        return None
    return None if row is None else str(row[0])
