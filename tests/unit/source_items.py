"""Reads a small file as a source, for the tests of both formats."""

from __future__ import annotations

import asyncio
from pathlib import Path

from assay.adapters.files.source import open_source
from assay.domain.identity import SourceItem


async def items_of(
    path: Path, content: bytes, mapping: dict[str, str] | None = None, max_record_bytes: int = 1 << 20
) -> list[SourceItem]:
    """All items of a file with this content; offsets and the announced total are compared with them."""
    await asyncio.to_thread(path.write_bytes, content)
    source = await open_source(str(path), mapping=mapping, max_record_bytes=max_record_bytes)
    found = [item async for batch in source.read() for item in batch]
    assert len(found) == source.total
    assert [item.position.offset for item in found] == list(range(len(found)))
    return found
