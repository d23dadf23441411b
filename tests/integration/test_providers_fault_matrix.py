"""The chat adapter against every fault, over real sockets: exact type, code and flags, in bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
import traceback
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from providers_fault_cases import CASES, Case
from pydantic import SecretStr

from assay.adapters.providers.openai_chat import OpenAIChatModel
from assay.adapters.providers.transport import Deadlines
from assay.domain.failures import ProviderError, RequestProviderError, TransientProviderError
from assay.ports import ModelRequest
from providers_fault_server import MEBIBYTE, FaultServer, always, fault_server, http

KEY = "sk-secret-key-of-the-test"
DEADLINES = Deadlines(total=0.5, connect=0.3, read=0.25)


def request(**parameters: object) -> ModelRequest:
    return ModelRequest(
        record_id="tickets.csv:1",
        input_version=1,
        messages=(("system", "Label it."), ("user", "the words of a person")),
        json_schema={"type": "object", "properties": {"category": {"type": "string"}}},
        schema_name="Ticket",
        parameters=parameters,
        idempotency_key="attempt.annotation.1",
    )


SOON = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FaultServer]:
    monkeypatch.setenv("ASSAY_ONLY_LOOPBACK", "1")
    async with fault_server({case.name: case.scenario for case in CASES}) as running:
        yield running


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_fault_becomes_its_typed_error(case: Case, server: FaultServer) -> None:
    model = OpenAIChatModel(
        "small-model",
        base_url=server.base_url(case.name),
        api_key=SecretStr(KEY),
        deadlines=DEADLINES,
        max_response_bytes=8 * MEBIBYTE,
    )
    started = time.perf_counter()
    with pytest.raises(ProviderError) as caught:
        await model.complete(request(temperature=0))
    elapsed = time.perf_counter() - started
    await model.aclose()
    failure = caught.value
    assert (type(failure), failure.code, failure.status) == (case.kind, case.code, case.status)
    assert (failure.billed, failure.counts_attempt) == (case.billed, case.counts)
    assert failure.retry_after == case.retry_after
    assert failure.request_id == case.request_id
    if case.partial is not None:
        assert failure.partial == case.partial
    assert len(failure.partial) <= 64 * 1024
    assert elapsed < 2.0
    assert len(server.seen) == 1, "a failed call is not repeated by the transport"
    told = "".join(traceback.format_exception(failure)) + repr(failure) + repr(failure.__context__)
    assert KEY not in told
    assert "words of a person" not in told


async def test_a_date_is_read_by_our_clock_where_the_reply_has_none(server: FaultServer) -> None:
    server.scenarios["date"] = always(http(429, b"", Retry_After=SOON))
    model = OpenAIChatModel("small-model", base_url=server.base_url("date"), deadlines=DEADLINES)
    with pytest.raises(TransientProviderError) as caught:
        await model.complete(request())
    await model.aclose()
    assert caught.value.retry_after is not None
    assert 0.0 <= caught.value.retry_after <= 30.0


async def test_a_port_where_nobody_listens_cost_nothing(server: FaultServer) -> None:
    free = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = free.sockets[0].getsockname()[1]
    free.close()
    await free.wait_closed()
    model = OpenAIChatModel("small-model", base_url=f"http://127.0.0.1:{port}/v1", deadlines=DEADLINES)
    with pytest.raises(TransientProviderError) as caught:
        await model.complete(request())
    await model.aclose()
    failure = caught.value
    assert (failure.code, failure.billed, failure.counts_attempt) == ("provider_connection", False, False)


async def test_a_connection_that_is_never_answered_cost_nothing(server: FaultServer) -> None:
    with socket.socket() as deaf, contextlib.ExitStack() as waiting:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(4):  # the queue of a listener that accepts nothing is full after these
            caller = waiting.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(deaf.getsockname())
        model = OpenAIChatModel(
            "small-model",
            base_url=f"http://127.0.0.1:{deaf.getsockname()[1]}/v1",
            deadlines=Deadlines(total=30.0, connect=0.2, read=30.0),
        )
        with pytest.raises(TransientProviderError) as caught:
            await asyncio.wait_for(model.complete(request()), 5)
        await model.aclose()
    failure = caught.value
    assert (failure.code, failure.billed, failure.counts_attempt) == ("provider_connection", False, False)


async def test_one_silence_is_bounded_within_a_long_deadline(server: FaultServer) -> None:
    deadlines = Deadlines(total=30.0, connect=30.0, read=0.2)
    model = OpenAIChatModel("small-model", base_url=server.base_url("stall-in-body"), deadlines=deadlines)
    with pytest.raises(TransientProviderError) as caught:
        await asyncio.wait_for(model.complete(request()), 5)
    await model.aclose()
    assert (caught.value.code, caught.value.partial) == ("provider_timeout", b'{"choices"')


async def test_cancellation_propagates_and_closes_the_connection(server: FaultServer) -> None:
    model = OpenAIChatModel("small-model", base_url=server.base_url("stall-in-body"))
    call = asyncio.create_task(model.complete(request()))
    await asyncio.wait_for(server.reached.wait(), 5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(server.client_left.wait(), 5)
    await model.aclose()


async def test_a_parameter_that_is_not_json_never_leaves(server: FaultServer) -> None:
    model = OpenAIChatModel("small-model", base_url=server.base_url("401"))
    for value in (float("nan"), object(), {1, 2}):
        with pytest.raises(RequestProviderError) as caught:
            await model.complete(request(odd=value))
        assert (caught.value.code, caught.value.billed) == ("provider_request_rejected", False)
    await model.aclose()
    assert server.seen == []
