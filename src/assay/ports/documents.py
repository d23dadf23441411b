"""Documents that records refer to."""

from __future__ import annotations

from typing import Protocol


class DocumentRefused(Exception):
    """A referenced document cannot be had, and no other try changes that.

    `error_type` is `document_missing`, `bad_reference` or `oversized`, see `MalformedInput`.
    """

    def __init__(self, error_type: str) -> None:
        super().__init__(error_type)
        self.error_type = error_type


class DocumentsUnreachable(Exception):
    """The place where documents lie does not answer; another try may help. `place` names it, no document."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place


class DocumentPort(Protocol):
    """Fetches what records refer to.

    Raises `DocumentRefused` for one reference, `DocumentsUnreachable` for an outage, `ConfigurationError` for
    credentials or settings that do not fit. At most `most_bytes` are read.
    """

    async def fetch(self, reference: str, most_bytes: int) -> bytes: ...
