"""Sealing and opening."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol


class VaultPort(Protocol):
    """Seals and opens; see `assay.adapters.vault`."""

    @property
    def kek_id(self) -> str: ...

    @property
    def kek_ids(self) -> Collection[str]: ...

    def new_key(self, subject_key: bytes | None = None) -> tuple[bytes, bytes]: ...

    def wrap(self, key: bytes, subject_key: bytes | None = None) -> bytes: ...

    def unwrap(self, wrapped: bytes, kek_id: str, subject_key: bytes | None = None) -> bytes: ...

    def seal(self, key: bytes, plaintext: bytes, aad: bytes) -> bytes: ...

    def open(self, key: bytes, sealed: bytes, aad: bytes) -> bytes: ...
