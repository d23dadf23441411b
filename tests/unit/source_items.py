"""Reads a small file as a source, for the tests of both formats."""

from __future__ import annotations

import asyncio
from pathlib import Path

from assay.adapters.files.source import open_source
from assay.domain.failures import AssayError
from assay.domain.identity import InputRecord, SourceItem
from assay.ports import SourcePort


async def collected(source: SourcePort, start: int = 0) -> list[SourceItem]:
    """All items of a source from an offset on."""
    return [item async for batch in source.read(start) for item in batch]


async def until_error(source: SourcePort) -> tuple[list[SourceItem], str | None]:
    """What comes before the error that ends the source, and what the error says; None without one."""
    found: list[SourceItem] = []
    try:
        async for batch in source.read():
            found.extend(batch)
    except AssayError as error:
        return found, str(error)
    return found, None


def text_of(item: SourceItem) -> str:
    """The text of a record, or why it is none."""
    return item.text if isinstance(item, InputRecord) else f"({item.error_type} {item.path})"


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
