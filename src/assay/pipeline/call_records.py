"""Rows of the ledger, from what a call came back with."""

from __future__ import annotations

from decimal import Decimal

from assay.domain.boundary import Accepted
from assay.domain.failures import ProviderError
from assay.domain.rejection import Rejected
from assay.domain.work import CallOutcome, CallRecord, KeptResponse
from assay.ports import ModelResponse


def _word(sent: str | None) -> str | None:
    """A vendor's identifier as it may stand in plain columns: short, printable, or not at all."""
    if sent is None or (len(sent) <= 200 and sent.isascii() and sent.isprintable()):
        return sent
    return "(not shown)"


def kept_answer(number: int, response: ModelResponse) -> KeptResponse:
    """A response as it came, for a pipeline that keeps what its contract refuses."""
    content = response.content
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    return KeptResponse(raw, response.truncated, number)


def answered_call(number: int, response: ModelResponse, verdict: Accepted | Rejected) -> CallRecord:
    """A call that was answered, and how the answer was judged."""
    content = response.content
    size = len(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    usage = response.usage
    return CallRecord(
        number,
        CallOutcome.ACCEPTED if isinstance(verdict, Accepted) else CallOutcome.REJECTED,
        code=None if isinstance(verdict, Accepted) else verdict.code.value,
        model=_word(response.model),
        request_id=_word(response.request_id),
        http_status=response.status,
        finish_reason=_word(response.finish_reason),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cost=response.cost,
        latency_ms=response.latency_ms,
        response_bytes=size,
    )


def failed_call(number: int, failure: ProviderError) -> CallRecord:
    """A call that failed, with what it cost all the same."""
    spent = failure.spent
    return CallRecord(
        number,
        CallOutcome.FAILED,
        code=failure.code,
        billed=failure.billed,
        model=None if spent is None else _word(spent.model),
        request_id=_word(failure.request_id),
        http_status=failure.status,
        finish_reason=None if spent is None else _word(spent.finish_reason),
        input_tokens=None if spent is None else spent.input_tokens,
        output_tokens=None if spent is None else spent.output_tokens,
        cached_tokens=None if spent is None else spent.cached_tokens,
        reasoning_tokens=None if spent is None else spent.reasoning_tokens,
        cost=Decimal(0) if not failure.billed else None if spent is None else spent.cost,
        latency_ms=failure.latency_ms,
        response_bytes=len(failure.partial),
    )
