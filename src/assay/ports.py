"""What the pipeline's rooms need from the outside, as Protocols and plain values.

Adapters implement these; `assay.app` is the only file that joins the two.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple, Protocol, runtime_checkable
from uuid import UUID

from assay.domain.account import AccountReport, AccountView, Booking
from assay.domain.breaker import Failure
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


@dataclass(frozen=True, slots=True)
class Content:
    """What identifies the content of a source: SHA-256 (hex) of its bytes, its number of items, its bytes."""

    fingerprint: str
    total: int
    size: int


@runtime_checkable
class GrowingSource(Protocol):
    """A source whose content may be an earlier content with more behind it: a file that was appended to.

    `content` is what is known by now; while a file is followed it grows, and it always covers the items that
    `read` has handed over. `starts_with` proves that the earlier content is a whole number of items at the
    start of this one, so that offsets and checkpoints of it hold here. `successor` is the source that took
    this one's place (a rotated file), None where there is none; asked for once `read` has ended.
    """

    @property
    def content(self) -> Content: ...

    async def starts_with(self, earlier: Content) -> bool: ...

    async def successor(self) -> SourcePort | None: ...


class ContentStorePort(Protocol):
    """Registered contents of sources.

    `register` returns the id of this content under this name and mapping: the one it has, or that of the
    longest earlier content that `starts_with` proves to be its start, or a new one. `extend` notes that the
    content of `source_id` has grown from `earlier` to `later`; False when somebody else changed it meanwhile.
    """

    async def register(
        self,
        *,
        kind: str,
        name: str,
        mapping: str,
        content: Content,
        starts_with: Callable[[Content], Awaitable[bool]],
    ) -> int: ...

    async def extend(self, source_id: int, earlier: Content, later: Content) -> bool: ...


# --- documents ----------------------------------------------------------------------------------------


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


# --- vault --------------------------------------------------------------------------------------------


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


# --- stores -------------------------------------------------------------------------------------------

# Called with the name of a crash point; does nothing unless one is armed.
Probe = Callable[[str], None]


class ClaimPort(Protocol):
    """Claims of one worker for one pipeline version."""

    async def claim(self, source_id: int, offers: Sequence[Offer]) -> Claims: ...

    async def claim_waiting(
        self, most: int, *, retries: int | None = None, max_bytes: int | None = None
    ) -> list[ClaimedTask]: ...

    async def tidy(self) -> int: ...

    async def release(self) -> None: ...

    async def next_due(self) -> tuple[float | None, int]: ...


class HeldLease(NamedTuple):
    """A task in a worker's hands, the attempt that holds it, and the lease that it was claimed under."""

    task_id: int
    attempt_id: UUID
    lease_id: int | None


class RenewalPort(Protocol):
    """Lease renewal, called from a thread of its own on a connection of its own."""

    def renew(self, leases: Sequence[HeldLease]) -> set[UUID]: ...

    def close(self) -> None: ...


class FinishPort(Protocol):
    """Fenced finishes of one worker for one pipeline version."""

    async def finish(self, finishes: Sequence[Finish]) -> dict[UUID, Finished]: ...

    async def note_first_pass(self, notes: Sequence[tuple[ClaimedTask, str, CallRecord]]) -> set[UUID]: ...


class OpenStop(Protocol):
    """A stop of a pipeline version that nobody has cleared."""

    @property
    def code(self) -> str: ...

    @property
    def http_status(self) -> int | None: ...


class VersionPort(Protocol):
    """What happens to one pipeline version while it runs. What was written is durable when a method returns.

    `note_model` is True when the vendor answers with another model than before; promotion is frozen then.
    """

    async def stopped(self) -> OpenStop | None: ...

    async def stop(self, code: str, http_status: int | None) -> bool: ...

    async def note_model(self, model: str, request_id: str | None = None) -> bool: ...


class SourceStorePort(Protocol):
    """Checkpoints and isolation of one source."""

    async def register(
        self, *, kind: str, name: str, fingerprint: str, mapping: str, total: int | None = None
    ) -> int: ...

    async def checkpoint(self, source_id: int, partition: int = 0) -> int: ...

    async def commit(self, source_id: int, offset: int, partition: int = 0) -> None: ...

    async def isolate(self, source_id: int, isolations: Sequence[Isolation]) -> int: ...


class AccountPort(Protocol):
    """A vendor account as one worker sees it; all of its workers share limits, pace and breaker.

    Every method raises `ConnectionError` while the database is away. `sync` tells what was seen and books
    what is asked for. The breaker's moves do nothing where another worker was first: `look` tells.
    """

    @property
    def worker(self) -> str: ...

    @property
    def account(self) -> str: ...

    async def enter(self) -> None: ...

    async def look(self) -> AccountView: ...

    async def sync(self, report: AccountReport) -> AccountView: ...

    async def give_back(self, booking: Booking, requests: int, tokens: float) -> None: ...

    async def open_breaker(self, failure: Failure) -> None: ...

    async def begin_probe(self) -> None: ...

    async def probe_succeeded(self) -> None: ...

    async def probe_failed(self, failure: Failure) -> None: ...

    async def probe_unused(self) -> None: ...
