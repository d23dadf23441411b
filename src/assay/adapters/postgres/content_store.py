"""Contents of files: a file that was appended to stays the source that it was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from psycopg.errors import UniqueViolation

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.session import Connection, Pool, transact
from assay.ports import Content


class ContentStore:
    """Registers contents; see `ContentStorePort`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._sql = queries("contents")

    async def register(
        self,
        *,
        kind: str,
        name: str,
        mapping: str,
        content: Content,
        starts_with: Callable[[Content], Awaitable[bool]],
    ) -> int:
        """The id of this content: known, or grown from a known one, or new."""
        terms = {
            "kind": kind, "name": name, "mapping": mapping, "fingerprint": content.fingerprint,
            "total": content.total, "size_bytes": content.size,
        }  # fmt: skip
        if found := await self._all("find_content", terms):
            return int(found[0][0])
        # The file is read between two transactions, never inside one.
        for source_id, fingerprint, total, size in await self._all("earlier_contents", terms):
            earlier = Content(fingerprint.partition("#")[0], total, size)
            if await starts_with(earlier) and await self.extend(source_id, earlier, content):
                return int(source_id)
        return int((await self._all("add_content", terms))[0][0])

    async def extend(self, source_id: int, earlier: Content, later: Content) -> bool:
        """Notes that the content has grown; False where it is not `earlier` any more."""
        terms = {
            "source_id": source_id, "earlier": earlier.fingerprint, "fingerprint": later.fingerprint,
            "total": later.total, "size_bytes": later.size,
        }  # fmt: skip
        try:
            return bool(await self._all("extend_content", terms))
        except UniqueViolation:  # another source got these bytes at the same moment; now that is seen
            return bool(await self._all("extend_content", terms))

    async def _all(self, name: str, terms: dict[str, object]) -> list[tuple[Any, ...]]:
        async def run(connection: Connection) -> list[tuple[Any, ...]]:
            cursor = await connection.execute(self._sql[name], terms)
            return await cursor.fetchall()

        return await transact(self._pool, run)
