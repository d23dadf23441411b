"""Documents that records refer to, fetched a few at a time while the records keep their order."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, cast

from assay.domain.failures import AssayError
from assay.domain.identity import InputRecord, SourceItem
from assay.domain.records import ParsedItem, Referenced, Refused
from assay.ports import DocumentPort, DocumentRefused, DocumentsUnreachable

# A batch is cut at so many items, and at so much text.
MAX_ITEMS: Final = 500
MAX_BYTES: Final = 1 << 20

_chance: Final = random.SystemRandom()
MAX_DOCUMENT_BYTES: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Documents:
    """Where documents are fetched, and how: bytes of one at most, fetches at once, and the waits in seconds.

    While a store does not answer, a fetch is tried again after a wait that doubles from `first_wait` to
    `longest_wait`, with full jitter; `patience` seconds of waiting end the run.
    """

    port: DocumentPort
    max_bytes: int = MAX_DOCUMENT_BYTES
    at_once: int = 8
    first_wait: float = 0.5
    longest_wait: float = 15.0
    patience: float = 120.0

    async def resolve(self, item: ParsedItem) -> SourceItem:
        """The item with its document's text, or malformed input. Raises `AssayError` after an outage."""
        if not isinstance(item, Referenced):
            return item
        try:
            content = await self._fetch(item.document_ref)
            return item.with_text(content.decode("utf-8"))
        except DocumentRefused as refused:
            return item.refused(refused.error_type)
        except UnicodeDecodeError:
            return item.refused("not_utf8")
        except Refused as refused:
            return item.refused(refused.error_type)

    async def _fetch(self, reference: str) -> bytes:
        waited, longest = 0.0, self.first_wait
        while True:
            try:
                content = await self.port.fetch(reference, self.max_bytes)
            except DocumentsUnreachable as outage:
                if waited >= self.patience:
                    raise AssayError(
                        f"{outage.place} does not answer, so no document can be read; run again once it "
                        "does. Nothing was isolated because of it."
                    ) from None
                wait = longest * (0.5 + _chance.random() / 2)
                waited, longest = waited + wait, min(2 * longest, self.longest_wait)
                await asyncio.sleep(wait)
            else:
                if len(content) > self.max_bytes:
                    raise DocumentRefused("oversized")
                return content


async def with_documents(
    batches: AsyncGenerator[Sequence[ParsedItem], None], documents: Documents | None
) -> AsyncGenerator[Sequence[SourceItem], None]:
    """The batches with every reference resolved, in order, cut at 500 items and 1 MiB of text.

    What stands before a document that cannot be fetched because of an outage is handed over before the error.
    """
    async with aclosing(batches):
        if documents is None:
            async for batch in batches:
                yield cast(Sequence[SourceItem], batch)  # without documents nothing refers to one
            return
        found: list[SourceItem] = []
        size = 0
        async with aclosing(_resolved(batches, documents)) as items:
            async for item in items:
                if item is not None and not isinstance(item, AssayError):
                    found.append(item)
                    size += len(item.text) if isinstance(item, InputRecord) else len(item.raw)
                if found and (
                    not isinstance(item, SourceItem) or len(found) >= MAX_ITEMS or size >= MAX_BYTES
                ):
                    yield found
                    found, size = [], 0
                if isinstance(item, AssayError):
                    raise item


async def _resolved(
    batches: AsyncIterator[Sequence[ParsedItem]], documents: Documents
) -> AsyncGenerator[SourceItem | AssayError | None, None]:
    """The items in order; None at the end of a batch, for whoever must not wait; the error of an outage."""
    async for batch in batches:
        underway: deque[asyncio.Task[SourceItem]] = deque()
        try:
            for item in batch:
                underway.append(asyncio.ensure_future(documents.resolve(item)))
                if len(underway) >= documents.at_once:
                    yield await _outcome(underway.popleft())
            while underway:
                yield await _outcome(underway.popleft())
        finally:
            for task in underway:
                task.cancel()
            await asyncio.gather(*underway, return_exceptions=True)
        yield None


async def _outcome(task: asyncio.Task[SourceItem]) -> SourceItem | AssayError:
    try:
        return await task
    except AssayError as failure:
        return failure
