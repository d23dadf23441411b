"""Webhooks against a real HTTP server."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from aiohttp import web
from sink_events import UNKNOWN_KIND, event
from webhook_endpoint import Endpoint, serving, status
from yarl import URL

from assay.adapters.sinks.webhook import WebhookSink
from assay.adapters.sinks.webhook_settings import VARIABLE, WebhookSettings, webhook_secrets
from assay.domain.events import body_of
from assay.domain.failures import ConfigurationError
from assay.domain.outbox import BEHIND, Answer, Delivered, OutboxEvent, Undelivered
from assay.ports import SinkUnavailable

SECRET: Final = bytes(range(32))
OLD: Final = bytes(range(32, 64))
MANY: Final = [event(f"r{number}", revision) for revision in (1, 2, 3) for number in range(20)]


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with serving(SECRET) as opened:
        yield opened


async def publish(endpoint: Endpoint, events: list[OutboxEvent], **settings: Any) -> list[Answer]:
    """One call on a sink of its own."""
    sink = WebhookSink(WebhookSettings(endpoint.url, **{"secrets": (SECRET,), **settings}))
    try:
        return await sink.publish(events)
    finally:
        await sink.aclose()


def says(code: int, when: str, revision: int = 1) -> Any:
    """This status for requests with one event, 204 for all others."""

    def answer(events: list[dict[str, Any]]) -> web.Response:
        hit = any(each["aggregate"]["id"].endswith(when) and each["revision"] == revision for each in events)
        return web.Response(status=code if hit else 204)

    return answer


async def test_an_event_is_posted_as_its_body_with_headers_and_signature(endpoint: Endpoint) -> None:
    sent = event("r ü%", 1)
    assert await publish(endpoint, [sent], source="/prod") == [Delivered()]
    (request,) = endpoint.requests
    assert endpoint.bodies == [body_of(sent)]
    assert endpoint.ids == [str(sent.event_id)]
    assert {name.lower(): value for name, value in request.headers.items() if "ce-" in name.lower()} == {
        "ce-specversion": "1.0", "ce-id": str(sent.event_id), "ce-source": "/prod",
        "ce-type": "assay.result.completed.v1", "ce-time": "2026-01-01T00:00:00.000000Z",
        "ce-subject": "tickets/r%20%C3%BC%25", "ce-dataschema": "urn:assay:event:completed:v1",
    }  # fmt: skip
    assert request.headers["content-type"] == "application/json"


@pytest.mark.parametrize("batch", [1, 7])
async def test_order_is_kept_per_aggregate_and_requests_are_bounded(endpoint: Endpoint, batch: int) -> None:
    async def slowly(_: list[dict[str, Any]]) -> web.Response:
        for _turn in range(20):
            await asyncio.sleep(0)
        return web.Response()

    endpoint.answer = slowly
    assert await publish(endpoint, MANY, batch=batch, concurrency=3) == [Delivered()] * len(MANY)
    assert all(endpoint.revisions(f"r{number}") == [1, 2, 3] for number in range(20))
    assert 1 < endpoint.busiest <= 3
    assert len(endpoint.requests) == 60 if batch == 1 else len(endpoint.requests) < 15


@pytest.mark.parametrize("batch", [1, 100])
@pytest.mark.parametrize("code", [400, 409, 413, 422])
async def test_a_poison_event_holds_up_its_aggregate_alone(endpoint: Endpoint, code: int, batch: int) -> None:
    endpoint.answer = says(code, "/r3", 2)
    answers = await publish(endpoint, MANY, batch=batch)
    told = dict(zip([(each.aggregate_id, each.revision) for each in MANY], answers, strict=True))
    assert told.pop(("tickets/r3", 2)) == Undelivered(f"webhook_http_{code}", poison=True)
    assert told.pop(("tickets/r3", 3)) == Undelivered(BEHIND)
    assert set(told.values()) == {Delivered()}
    assert endpoint.revisions("r3") == [1]
    assert all(endpoint.revisions(f"r{number}") == [1, 2, 3] for number in range(20) if number != 3)


@pytest.mark.parametrize("code", [408, 425, 500, 502, 504])
async def test_a_stumble_over_one_event_leaves_it_to_another_try(endpoint: Endpoint, code: int) -> None:
    endpoint.answer = says(code, "/r3", 2)
    answers = await publish(endpoint, MANY)
    assert answers.count(Delivered()) == len(MANY) - 2
    assert Undelivered(f"webhook_http_{code}") in answers
    assert answers[-17] == Undelivered(BEHIND)


@pytest.mark.parametrize("code", [301, 307, 401, 403, 404, 410, 429, 500, 502, 503])
async def test_an_endpoint_that_takes_nothing_is_unavailable_and_not_flooded(
    endpoint: Endpoint, code: int
) -> None:
    endpoint.answer = status(code, Location="/hook/elsewhere")
    with pytest.raises(SinkUnavailable) as failure:
        await publish(endpoint, MANY, concurrency=4)
    assert failure.value.reason == f"webhook_http_{code}"
    assert len(endpoint.requests) <= 8
    assert {request.path for request in endpoint.requests} == {"/hook/of"}


async def test_one_event_alone_that_fails_is_about_that_event_and_several_are_not(endpoint: Endpoint) -> None:
    endpoint.answer = status(500)
    assert await publish(endpoint, MANY[:1]) == [Undelivered("webhook_http_500")]
    with pytest.raises(SinkUnavailable, match="webhook_http_500"):
        await publish(endpoint, MANY[:2])


async def test_what_was_delivered_before_it_closed_counts(endpoint: Endpoint) -> None:
    endpoint.answer = says(503, "/r0", 2)
    answers = await publish(endpoint, [event("r0", 1), event("r0", 2), event("r0", 3)], concurrency=1)
    assert answers == [Delivered(), Undelivered("webhook_http_503"), Undelivered(BEHIND)]


async def test_retry_after_is_kept_to(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr("assay.adapters.sinks.webhook.time.monotonic", lambda: now)
    endpoint.answer = status(503, **{"Retry-After": "120"})
    sink = WebhookSink(WebhookSettings(endpoint.url, (SECRET,), concurrency=1))
    with pytest.raises(SinkUnavailable, match="webhook_http_503"):
        await sink.publish(MANY)
    endpoint.answer = status(200)
    now += 119
    with pytest.raises(SinkUnavailable, match="webhook_asked_to_wait"):
        await sink.publish(MANY)
    assert len(endpoint.requests) == 1
    now += 2
    assert await sink.publish(MANY[:1]) == [Delivered()]
    await sink.aclose()
    await sink.aclose()


async def test_nobody_there_and_silence(endpoint: Endpoint, unused_tcp_port: int) -> None:
    there, endpoint.url = endpoint.url, endpoint.url.with_port(unused_tcp_port)
    with pytest.raises(SinkUnavailable, match="webhook_no_connection"):
        await publish(endpoint, MANY)
    release = asyncio.Event()

    async def silence(_: list[dict[str, Any]]) -> web.Response:
        await release.wait()
        return web.Response()

    endpoint.url, endpoint.answer = there, silence
    with pytest.raises(SinkUnavailable, match="webhook_timeout"):
        await publish(endpoint, MANY, concurrency=2, request_seconds=0.2)
    started = time.monotonic()
    with pytest.raises(SinkUnavailable, match="webhook_no_time"):
        await publish(endpoint, [event(f"other{n}", 1) for n in range(20)], send_seconds=0.3)
    assert time.monotonic() - started < 5
    release.set()


async def test_silence_over_one_event_leaves_the_others_alone(endpoint: Endpoint) -> None:
    release = asyncio.Event()

    async def silent_over_one(events: list[dict[str, Any]]) -> web.Response:
        if events[0]["aggregate"]["id"].endswith("/r3"):
            await release.wait()
        return web.Response()

    endpoint.answer = silent_over_one
    answers = await publish(endpoint, MANY, request_seconds=0.5)
    release.set()
    assert answers.count(Delivered()) == len(MANY) - 3
    assert answers[3] == Undelivered("webhook_timeout")


async def test_a_long_answer_and_one_that_breaks_off_change_nothing(endpoint: Endpoint) -> None:
    endpoint.answer = lambda _: web.Response(body=b"x" * 1_000_000)
    assert await publish(endpoint, MANY[:3]) == [Delivered()] * 3

    async def breaks_off(_: list[dict[str, Any]]) -> web.StreamResponse:
        reply = web.StreamResponse(headers={"Content-Length": "1000"})
        await reply.prepare(endpoint.requests[-1])
        await reply.write(b"some")
        transport = endpoint.requests[-1].transport
        assert transport is not None
        transport.abort()
        return reply

    endpoint.answer = breaks_off
    assert await publish(endpoint, MANY[:1]) == [Delivered()]


async def test_connections_are_used_again(endpoint: Endpoint) -> None:
    await publish(endpoint, MANY, concurrency=1)
    assert len({id(request.transport) for request in endpoint.requests}) == 1


async def test_what_cannot_be_written_is_poison_and_never_sent(endpoint: Endpoint) -> None:
    events = [event("a", 1, kind=UNKNOWN_KIND), event("a", 2), event("b", 1)]
    for batch in (1, 10):
        answers = await publish(endpoint, events, batch=batch)
        assert answers == [
            Undelivered("event_kind_unknown", poison=True), Undelivered(BEHIND), Delivered(),
        ]  # fmt: skip
    assert await publish(endpoint, []) == []


async def test_two_secrets_while_they_are_exchanged(endpoint: Endpoint) -> None:
    assert await publish(endpoint, MANY[:1], secrets=(OLD, SECRET)) == [Delivered()]
    with pytest.raises(SinkUnavailable, match="webhook_http_401"):
        await publish(endpoint, MANY[:1], secrets=(OLD,))


async def test_a_batch_is_an_array_with_an_id_that_comes_again(endpoint: Endpoint) -> None:
    for _ in range(2):
        await publish(endpoint, MANY[:5], batch=10, concurrency=1)
    assert json.loads(endpoint.bodies[0]) == [json.loads(body_of(each)) for each in MANY[:5]]
    assert endpoint.ids[0] == endpoint.ids[1]
    await publish(endpoint, MANY[:4], batch=10, concurrency=1)
    assert endpoint.ids[2] != endpoint.ids[0]


async def test_neither_name_nor_errors_nor_log_tell_what_is_secret(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture, unused_tcp_port: int
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = WebhookSettings(endpoint.url, webhook_secrets({VARIABLE: "whsec_" + "QUJD" * 8}))
    sink = WebhookSink(settings)
    with pytest.raises(SinkUnavailable) as refused:
        await sink.publish([event("r", 1), event("s", 1)])
    await sink.aclose()
    endpoint.url = endpoint.url.with_port(unused_tcp_port)
    with pytest.raises(SinkUnavailable) as nobody:
        await publish(endpoint, [event("r", 1)])
    told = (
        f"{settings!r}{sink.name}{refused.value!r}{nobody.value!r}{nobody.value.__context__!r}{caplog.text}"
    )
    for secret in ("QUJD", "ABCABC", "Zq7SecretTokenXw", "tickets/r", "v1,"):
        assert secret not in told
    assert sink.name == "webhook:127.0.0.1"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"url": URL("ftp://host/x")}, "http or https"),
        ({"url": URL("/path")}, "http or https"),
        ({"url": URL("https://user:pw@host/")}, "user name or password"),
        ({"secrets": ()}, "ASSAY_WEBHOOK_SECRET"),
        ({"batch": 0}, "1 or more"),
        ({"concurrency": 0}, "1 or more"),
        ({"send_seconds": 0.0}, "more than 0"),
    ],
)
def test_settings_that_do_not_fit_are_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        WebhookSettings(**{"url": URL("https://host/"), "secrets": (SECRET,), **given})


@pytest.mark.parametrize("given", ["", "no base64!", "QUJD"])
def test_secrets_that_do_not_fit_are_refused_without_telling_them(given: str) -> None:
    with pytest.raises(ConfigurationError, match="ASSAY_WEBHOOK_SECRET") as failure:
        webhook_secrets({VARIABLE: given})
    assert not given or given not in str(failure.value)
