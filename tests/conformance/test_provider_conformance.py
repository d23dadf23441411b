"""Every adapter against every fault, over real sockets: one table of expectations, every cell asserted."""

from __future__ import annotations

import time
import traceback
from collections.abc import AsyncIterator
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from provider_dialects import ADAPTERS, KEY, LONG, MESSAGES, SHORT, Adapter
from provider_fault_matrix import MATRIX, Answers, Cell, Fails

from assay.adapters.providers.transport import Deadlines
from assay.domain.failure_table import FAILURE_TABLE, FailureClass
from assay.domain.failures import ProviderError
from assay.domain.rate_limits import Allowance, RateLimits
from assay.ports import ModelRequest, ModelResponse, Usage
from providers_fault_server import FaultServer, always, fault_server, http

SCHEMA = {
    "type": "object",
    "properties": {"category": {"type": "string", "enum": ["billing", "other"]}},
    "required": ["category"],
    "additionalProperties": False,
}
REQUEST = ModelRequest(
    record_id="tickets.csv:1",
    input_version=1,
    messages=(("system", "Label it."), ("user", "the words of a person")),
    json_schema=SCHEMA,
    schema_name="Ticket",
    parameters={},
    idempotency_key="attempt.annotation.1",
)
USAGE = Usage(1000, 50, cached_tokens=200, reasoning_tokens=7)

every_adapter = pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FaultServer]:
    monkeypatch.setenv("ASSAY_ONLY_LOOPBACK", "1")
    async with fault_server({}) as running:
        yield running


async def call(adapter: Adapter, base_url: str, deadlines: Deadlines = LONG) -> ModelResponse | ProviderError:
    model = adapter.make(base_url, deadlines)
    started = time.perf_counter()
    try:
        return await model.complete(REQUEST)
    except ProviderError as failure:
        return failure
    finally:
        assert time.perf_counter() - started < deadlines.total + 2.0, "no call outlives its deadline"
        await model.aclose()


@every_adapter
@pytest.mark.parametrize("cell", MATRIX, ids=lambda cell: cell.name)
async def test_the_cell_is_as_the_table_says(cell: Cell, adapter: Adapter, server: FaultServer) -> None:
    server.scenarios[cell.name] = cell.scenario(adapter.dialect)
    outcome = await call(adapter, server.base_url(cell.name), SHORT if cell.waits else LONG)
    assert len(server.seen) == 1, "one call is one request: no retry, no redirect"
    assert server.seen[0].path.partition("?")[0].endswith(adapter.path)
    if isinstance(cell.expected, Answers):
        assert isinstance(outcome, ModelResponse), outcome
        check_answer(outcome, cell.expected, adapter)
    else:
        assert isinstance(outcome, ProviderError), outcome
        check_failure(outcome, cell.expected, adapter)


def check_answer(response: ModelResponse, expected: Answers, adapter: Adapter) -> None:
    dialect = adapter.dialect
    assert (response.content, response.truncated) == (expected.content, expected.truncated)
    assert response.finish_reason == (dialect.cut if expected.truncated else dialect.finish)
    assert response.usage == (USAGE if expected.usage else Usage())
    assert (response.status, response.request_id) == (200, "req-7")
    assert response.model == expected.model
    assert response.latency_ms > 0.0
    assert response.cost is None, "a server of one's own is not charged at a vendor's price"


def check_failure(failure: ProviderError, expected: Fails, adapter: Adapter) -> None:
    assert (failure.code, failure.status) == (expected.code, expected.status)
    assert failure.failure_class is expected.failure_class is FAILURE_TABLE[failure.code].failure_class
    assert (failure.billed, failure.counts_attempt) == (expected.billed, expected.counts_attempt)
    assert failure.retry_after == expected.retry_after
    assert failure.request_id == ("req-7" if expected.request_id else None)
    if expected.partial is None:
        assert failure.partial
    else:
        assert failure.partial == expected.partial
    assert failure.latency_ms is not None
    assert failure.latency_ms > 0.0
    if expected.spent:
        assert failure.spent is not None
        assert (failure.spent.input_tokens, failure.spent.output_tokens) == (1000, 50)
        assert failure.spent.model == "small-model-2026-01-01"
    told = "".join(traceback.format_exception(failure)) + repr(failure) + repr(failure.__context__)
    assert KEY.get_secret_value() not in told
    assert "words of a person" not in told


async def test_the_table_is_no_formality(server: FaultServer) -> None:
    cell = next(cell for cell in MATRIX if cell.name == "429-seconds")
    assert isinstance(cell.expected, Fails)
    server.scenarios["x"] = cell.scenario(ADAPTERS[0].dialect)
    failure = await call(ADAPTERS[0], server.base_url("x"))
    assert isinstance(failure, ProviderError)
    check_failure(failure, cell.expected, ADAPTERS[0])
    wrong: list[dict[str, Any]] = [
        {"code": "provider_overloaded"}, {"failure_class": FailureClass.POLICY}, {"status": 503},
        {"billed": True}, {"counts_attempt": True}, {"request_id": False}, {"partial": b""},
        {"retry_after": 8.0},
    ]  # fmt: skip
    for change in wrong:
        with pytest.raises(AssertionError):
            check_failure(failure, replace(cell.expected, **change), ADAPTERS[0])


@every_adapter
async def test_limits_are_read_on_success_and_on_refusal(adapter: Adapter, server: FaultServer) -> None:
    dialect = adapter.dialect
    if dialect.limit_headers is None:
        server.scenarios["ok"] = always(http(200, dialect.ok()))
        outcome = await call(adapter, server.base_url("ok"))
        assert outcome.rate_limits is None
        return
    headers = {name.replace("-", "_"): value for name, value in dialect.limit_headers.items()}
    server.scenarios["ok"] = always(http(200, dialect.ok(), **headers))
    server.scenarios["limited"] = always(http(429, dialect.error("x", "rate_limit_error"), **headers))
    expected = RateLimits(Allowance(500, 499, 0.12), Allowance(30_000, 28_976, 360.0))
    if dialect is MESSAGES:
        expected = RateLimits(
            Allowance(50, 49, 1.0),
            Allowance(30_000, 28_000, 360.0),
            Allowance(None, 20_000, None),
            Allowance(8_000, None, None),
        )
    for scenario in ("ok", "limited"):
        outcome = await call(adapter, server.base_url(scenario))
        assert outcome.rate_limits == expected


@every_adapter
async def test_a_used_up_quota_stops_the_version_whatever_the_status(
    adapter: Adapter, server: FaultServer
) -> None:
    kind = adapter.dialect.quota_type
    if not kind:
        return  # Google's errors do not tell a used up quota from a rate limit
    for status in (400, 429):
        server.scenarios["quota"] = always(http(status, adapter.dialect.error(kind, kind)))
        failure = await call(adapter, server.base_url("quota"))
        assert isinstance(failure, ProviderError)
        assert (failure.code, failure.billed) == ("provider_quota", False)


@every_adapter
async def test_a_port_where_nobody_listens_cost_nothing(adapter: Adapter, server: FaultServer) -> None:
    async with fault_server({}) as gone:
        address = gone.base_url("nobody")
    failure = await call(adapter, address)
    assert isinstance(failure, ProviderError)
    assert (failure.code, failure.billed, failure.counts_attempt) == ("provider_connection", False, False)


@every_adapter
async def test_the_guard_refuses_before_anything_is_sent(adapter: Adapter, server: FaultServer) -> None:
    # 0.0.0.0 reaches this machine but is no loopback address.
    server.scenarios["ok"] = always(http(200, adapter.dialect.ok()))
    failure = await call(adapter, server.base_url("ok").replace("127.0.0.1", "0.0.0.0"))
    assert isinstance(failure, ProviderError)
    assert (failure.code, failure.billed, server.seen) == ("provider_settings_rejected", False, [])


@every_adapter
async def test_the_key_the_schema_and_the_idempotency_key_are_sent(
    adapter: Adapter, server: FaultServer
) -> None:
    server.scenarios["ok"] = always(http(200, adapter.dialect.ok()))
    await call(adapter, server.base_url("ok"))
    seen = server.seen[0]
    assert KEY.get_secret_value() in str(dict(seen.headers))
    assert seen.headers["idempotency-key"] == "attempt.annotation.1"
    assert ("billing" in str(seen.body)) is adapter.constrains, "the schema goes along"
    assert "Label it." in str(seen.body)
    assert "tickets.csv" not in str(seen.body) + str(dict(seen.headers))


@every_adapter
async def test_accounts_differ_by_address_and_key_and_hide_the_key(
    adapter: Adapter, server: FaultServer
) -> None:
    one, two = (adapter.make(f"http://127.0.0.1:{port}/v1", LONG) for port in (1, 2))
    assert one.account == f"http://127.0.0.1:1#{sha256(KEY.get_secret_value().encode()).hexdigest()[:8]}"
    assert two.account != one.account
    await one.aclose()
    await two.aclose()
