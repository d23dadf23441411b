"""How the commands of `assay isolated` read bytes again, and what they open for it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from assay.adapters.files.source import MAX_RECORD_BYTES
from assay.adapters.postgres.isolated_fixes import IsolatedFixes, ReadPiece
from assay.adapters.postgres.session import make_pool
from assay.cli.run_input import documents_of
from assay.domain.definition import Pipeline
from assay.domain.identity import InputRecord, SourceItem
from assay.domain.isolated import IsolatedPiece, Reading, read_again
from assay.domain.records import Referenced
from assay.domain.work import Offer
from assay.pipeline.fetching import Documents
from assay.ports import VaultPort

_chance = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class FixTarget:
    """The database, the vault and the version that fixed records go to (0: none, it is only looked)."""

    url: str
    vault: VaultPort
    version_id: int
    author: str


@asynccontextmanager
async def fixes_of(target: FixTarget) -> AsyncIterator[IsolatedFixes]:
    """The fixes, for as long as the context lasts."""
    pool = make_pool(target.url, size=1)
    await pool.open()
    try:
        yield IsolatedFixes(pool, target.vault, version_id=target.version_id, author=target.author)
    finally:
        await pool.close()


def offer_of(record: InputRecord, pipeline: Pipeline) -> Offer:
    """The record with its draw for the quality pool, as a run makes it."""
    share = pipeline.quality_probability
    return Offer(record, share, share > 0 and _chance.random() < share)


def reader(
    mapping: Mapping[str, str] | None, documents_root: str | None, corrected: bytes | None = None
) -> ReadPiece:
    """Reads pieces by their source's mapping, or another; `corrected` bytes in place of the stored ones."""
    reading = Reading(mapping, MAX_RECORD_BYTES, documents=documents_root is not None)

    async def read(piece: IsolatedPiece) -> SourceItem:
        item = read_again(piece, piece.raw if corrected is None else corrected, reading)
        if not isinstance(item, Referenced):
            return item
        port = documents_of(piece.own_mapping() if mapping is None else mapping, documents_root)
        return item.refused("bad_reference") if port is None else await Documents(port).resolve(item)

    return read
