"""Which models the vendor answers with: each one is noted once per process, before its answer is finished."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from assay.domain.work import CallRecord
from assay.telemetry import tell

# Notes a model (and the vendor's id of the request that brought it); True when the vendor changed it.
NoteModel = Callable[[str, str | None], Awaitable[bool]]


class ModelWatch:
    """Remembers the models of this process; the database is asked about each of them once."""

    def __init__(self, note: NoteModel) -> None:
        self._note = note
        self._notes: dict[str, asyncio.Task[None]] = {}

    async def saw(self, calls: Iterable[CallRecord]) -> None:
        """Return once every model of these calls is noted: await it before the finish that they belong to.

        Answers of a new model that come in together wait for the one note, so that none of them is accepted
        before the freeze that a change brings.
        """
        for call in calls:
            if call.model:
                await self._saw(call.model, call.request_id)

    async def _saw(self, model: str, request_id: str | None) -> None:
        noting = self._notes.get(model)
        if noting is None:
            noting = self._notes[model] = asyncio.create_task(self._make_note(model, request_id))
        if not noting.done():
            # One attempt may be cancelled while it waits; the note is for all of them.
            await asyncio.shield(noting)
        noting.result()

    async def _make_note(self, model: str, request_id: str | None) -> None:
        if await self._note(model, request_id):
            tell("model_changed", model_answered=model)
