"""A publisher into a file, as a process: says after each batch how far it came, until it is killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from sink_events import event

from assay.adapters.sinks.jsonl import JsonlSink
from assay.domain.outbox import Delivered


async def main(path: Path, first: int) -> None:
    sink = JsonlSink(path)
    print("open", flush=True)
    while True:
        batch = [event("r", revision, size=20_000) for revision in range(first, first + 8)]
        assert all(isinstance(answer, Delivered) for answer in await sink.publish(batch))
        first += len(batch)
        print(first - 1, flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
