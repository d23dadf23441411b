"""Events as lines of a file, on the disk before they count as delivered."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from assay.adapters.sinks.event_file import EventFile
from assay.adapters.sinks.lanes import Batch
from assay.domain.events import UnfitEvent, body_of
from assay.domain.outbox import Answer, Delivered, OutboxEvent, Undelivered
from assay.ports import SinkUnavailable
from assay.telemetry import tell

SEND_SECONDS: Final = 30.0


class JsonlSink:
    """Appends to one file. Raises `ConfigurationError` from the start for one that does not fit.

    Where the file was moved away a new one is begun: move it to rotate. A line is the event's body.
    """

    def __init__(self, path: Path, send_seconds: float = SEND_SECONDS) -> None:
        self._path = path
        self._send_seconds = send_seconds
        self._file: EventFile | None = self._open()
        self._writing: asyncio.Future[int] | None = None

    @property
    def name(self) -> str:
        """`jsonl:` and the file's name."""
        return f"jsonl:{self._path.name}"

    @property
    def send_seconds(self) -> float:
        """How long a call of `publish` takes at most."""
        return self._send_seconds

    async def publish(self, events: Sequence[OutboxEvent]) -> list[Answer]:
        """Append the events and wait for the disk. Raises `SinkUnavailable`."""
        if self._writing is not None and not self._writing.done():
            raise SinkUnavailable("jsonl_disk_silent")
        batch, lines = Batch(events), []
        for place, event in enumerate(events):
            if batch.blocked(place):
                continue
            try:
                lines.append((place, body_of(event) + b"\n"))
            except UnfitEvent as error:
                batch.answer(place, Undelivered(error.reason, poison=True))
        if lines:
            position = await self._append(b"".join(line for _, line in lines))
            for place, line in lines:
                batch.answer(place, Delivered(str(position)))
                position += len(line)
        return batch.answers("jsonl_not_written")

    async def aclose(self) -> None:
        """Let go of the file, after a write under way. May be called twice."""
        if self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing], timeout=self._send_seconds)
        # A write that hangs in the system keeps its descriptor: closing it could hand the number to another.
        if self._writing is None or self._writing.done():
            self._close()

    async def _append(self, lines: bytes) -> int:
        self._writing = asyncio.ensure_future(asyncio.to_thread(self._write, lines))
        done, _ = await asyncio.wait([self._writing], timeout=self._send_seconds)
        if not done:
            # Whatever comes of it, the events are sent again.
            self._writing.add_done_callback(lambda written: written.cancelled() or written.exception())
            raise SinkUnavailable("jsonl_disk_silent")
        try:
            return self._writing.result()
        except OSError as error:
            failure = "jsonl_disk_full" if error.errno == errno.ENOSPC else "jsonl_write_failed"
        raise SinkUnavailable(failure)

    def _write(self, lines: bytes) -> int:
        if self._file is not None and not self._file.current:
            self._close()
        if self._file is None:
            self._file = self._open()
        try:
            return self._file.append(lines)
        except OSError:
            # What the failed write left is found and cut off when the file is opened again.
            self._close()
            raise

    def _open(self) -> EventFile:
        return EventFile(self._path, lambda size: tell("event_file_mended", sink=self.name, count=size))

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
