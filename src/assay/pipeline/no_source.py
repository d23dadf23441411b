"""A run without input: what PostgreSQL holds for the version is all there is to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from assay.domain.identity import SourceItem


class NoSource:
    """Yields nothing. `name` is what logs show in a source's place."""

    fingerprint: Final = None
    total: Final = 0

    def __init__(self, name: str) -> None:
        self.name: Final = name

    async def read(self, start: int = 0) -> AsyncIterator[Sequence[SourceItem]]:
        """Nothing, from any offset on."""
        nothing: tuple[Sequence[SourceItem], ...] = ()
        for none in nothing:
            yield none
