"""What the pipeline's rooms need from the outside, as Protocols and plain values.

Adapters implement these; `assay.app` is the only file that joins the two.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

from assay.domain.identity import SourceItem
from assay.domain.rate_limits import RateLimits
from assay.domain.work import (
    CallRecord,
    ClaimedTask,
    Claims,
    Finish,
    Finished,
    Isolation,
    Offer,
)

# --- models -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call to a model: bytes in, bytes out.

    `messages` are role and content, the record's text alone in the last one. `json_schema` is the
    contract's schema for providers with structured output. `record_id` and `input_version` serve
    adapters that look answers up (`recorded:`); they are never sent to a vendor.
    `idempotency_key` = (attempt, annotation, pass), opaque.
    """

    record_id: str
    input_version: int
    messages: tuple[tuple[str, str], ...] = field(repr=False)
    json_schema: Mapping[str, Any] | None
    schema_name: str
    parameters: Mapping[str, Any]
    idempotency_key: str
    pass_number: int = 1


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; None where it did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """What came back: the answer's text exactly as the provider gave it, and what is known about the call.

    `content` is the raw answer (str as decoded from the provider's envelope; bytes where there is none).
    `truncated` is True when the finish reason says that the token limit cut the answer. `rate_limits` is what
    the reply's headers say about the account's limits, None where they say nothing.
    """

    content: str | bytes = field(repr=False)
    truncated: bool = False
    finish_reason: str | None = None
    usage: Usage = Usage()
    cost: Decimal | None = None
    request_id: str | None = None
    status: int | None = None
    model: str | None = None
    latency_ms: float = 0.0
    rate_limits: RateLimits | None = None


class ModelPort(Protocol):
    """A model. Raises `ProviderError` subclasses and nothing else; cancellation propagates.

    `account` names whose limits its calls count against: all workers that call with the same key at the same
    address share it. It tells neither key nor user name. None for a model without a vendor (`recorded:`).
    """

    @property
    def account(self) -> str | None: ...

    async def complete(self, request: ModelRequest) -> ModelResponse: ...

    async def aclose(self) -> None: ...


# --- sources ------------------------------------------------------------------------------------------


class SourcePort(Protocol):
    """An ordered stream of records with offsets: a file, standard input, later a topic partition.

    `name` is what records carry as `source`. `fingerprint` identifies the content (SHA-256 hex), so that
    a checkpoint is never applied to other content; None where it cannot be known (standard input).
    `total` is the number of records where it is cheap to know. `read(start)` yields items whose offset
    is `start` or more, in offset order, offsets without gaps.
    """

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str | None: ...

    @property
    def total(self) -> int | None: ...

    def read(self, start: int = 0) -> AsyncIterator[Sequence[SourceItem]]: ...


# --- vault --------------------------------------------------------------------------------------------


class VaultPort(Protocol):
    """Seals and opens; see `assay.adapters.vault`."""

    @property
    def kek_id(self) -> str: ...

    def new_key(self, subject_key: bytes | None = None) -> tuple[bytes, bytes]: ...

    def wrap(self, key: bytes, subject_key: bytes | None = None) -> bytes: ...

    def unwrap(self, wrapped: bytes, kek_id: str, subject_key: bytes | None = None) -> bytes: ...

    def seal(self, key: bytes, plaintext: bytes, aad: bytes) -> bytes: ...

    def open(self, key: bytes, sealed: bytes, aad: bytes) -> bytes: ...


# --- stores -------------------------------------------------------------------------------------------

# Called with the name of a crash point; does nothing unless one is armed.
Probe = Callable[[str], None]


class ClaimPort(Protocol):
    """Claims of one worker for one pipeline version."""

    async def claim(self, source_id: int, offers: Sequence[Offer]) -> Claims: ...

    async def claim_waiting(self, most: int) -> list[ClaimedTask]: ...

    async def tidy(self) -> int: ...

    async def next_due(self) -> tuple[float | None, int]: ...


class RenewalPort(Protocol):
    """Lease renewal, called from a thread of its own on a connection of its own."""

    def renew(self, leases: Sequence[tuple[int, UUID]]) -> set[UUID]: ...

    def close(self) -> None: ...


class FinishPort(Protocol):
    """Fenced finishes of one worker for one pipeline version."""

    async def finish(self, finishes: Sequence[Finish]) -> dict[UUID, Finished]: ...

    async def note_first_pass(self, notes: Sequence[tuple[ClaimedTask, str, CallRecord]]) -> set[UUID]: ...


class SourceStorePort(Protocol):
    """Checkpoints and isolation of one source."""

    async def register(
        self, *, kind: str, name: str, fingerprint: str, mapping: str, total: int | None = None
    ) -> int: ...

    async def checkpoint(self, source_id: int, partition: int = 0) -> int: ...

    async def commit(self, source_id: int, offset: int, partition: int = 0) -> None: ...

    async def isolate(self, source_id: int, isolations: Sequence[Isolation]) -> int: ...
