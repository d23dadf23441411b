"""What a consumer reads: events, and the signatures of webhooks."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.consumer import BadSignature, MalformedEvent, parse, secrets_of, sign, verify
from assay.domain.events import body_of, headers_of
from assay.domain.outbox import OutboxEvent

SENT = OutboxEvent(
    event_id=UUID(int=7), outbox_id=1, aggregate_kind="result", aggregate_id="tickets/r ü",
    kind="completed", revision=3, task_id=5, created_at=datetime(2026, 1, 2, tzinfo=UTC), restore_epoch=1,
    payload={"label": {"amount": Decimal("0.10")}, "record_id": "r ü"},
)  # fmt: skip
BODY = body_of(SENT)
SECRET, OLD = bytes(range(32)), bytes(range(32, 64))
TOKEN = "Zq7SecretTokenXw"


def changed(**changes: Any) -> str:
    told = {**json.loads(BODY), **changes}
    return json.dumps({name: value for name, value in told.items() if value is not ...})


@pytest.mark.parametrize("value", [BODY, BODY.decode()])
def test_an_event_comes_back_as_it_was_sent(value: bytes | str) -> None:
    headers = [(name, text.encode()) for name, text in headers_of(SENT).items()] + [("empty", None)]
    event = parse(value, headers)
    assert (event.event_id, event.kind, event.schema, event.revision, event.epoch) == (
        SENT.event_id, "completed", 1, 3, 1,
    )  # fmt: skip
    assert (event.aggregate_kind, event.aggregate_id) == ("result", "tickets/r ü")
    assert event.occurred_at == SENT.created_at
    assert event.data == SENT.payload
    assert isinstance(event.data["label"]["amount"], Decimal)
    assert event.headers["ce_subject"] == "tickets/r ü"
    assert event.is_known
    assert not event.is_note
    assert parse(value, headers_of(SENT)) == parse(value, [*headers_of(SENT).items()])


def test_what_a_later_release_adds_passes() -> None:
    event = parse(changed(kind="snapshot_ready", schema=2, further={"a": 1}))
    assert (event.kind, event.schema, event.is_known) == ("snapshot_ready", 2, False)
    assert not parse(changed(schema=2)).is_known
    assert parse(changed(kind="superseded")).is_note


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (None, "no value"),
        (b"\xff", "not UTF-8"),
        (b"", "not JSON"),
        ("{", "not JSON"),
        ('{"event_id": NaN}', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"event_id": ' + "9" * 5000 + "}", "too long"),
        ("[]", "no JSON object"),
        (changed().replace('"kind": "completed"', '"kind": "completed", "kind": "isolated"'), "twice"),
        (changed(event_id="7"), "event_id is no UUID"),
        (changed(event_id=7), "event_id is missing or has"),
        (changed(kind=...), "kind is missing"),
        (changed(kind=""), "kind is empty"),
        (changed(schema=True), "schema is missing or has"),
        (changed(schema=0), "schema is out of range"),
        (changed(aggregate="r"), "aggregate is missing or has"),
        (changed(aggregate={"kind": "result"}), "id is missing"),
        (changed(aggregate={"kind": "result", "id": "a\x00"}), "no text"),
        (changed(aggregate={"kind": "result", "id": "a\ud800"}), "no text"),
        (changed(revision=0), "revision is out of range"),
        (changed(revision=2**63), "revision is out of range"),
        (changed(revision=1.5), "revision is missing or has"),
        (changed(epoch=-1), "epoch is out of range"),
        (changed(occurred_at="yesterday"), "no RFC 3339 time"),
        (changed(occurred_at="2026-01-02T00:00:00"), "no time zone"),
        (changed(data=[]), "data is missing or has"),
    ],
)
def test_what_is_no_event_is_refused_with_a_reason(value: bytes | str | None, complaint: str) -> None:
    with pytest.raises(MalformedEvent, match=complaint):
        parse(value)


def test_headers_of_another_event_are_refused() -> None:
    with pytest.raises(MalformedEvent, match="another event"):
        parse(BODY, {"ce_id": str(UUID(int=8))})


@given(
    st.binary() | st.text() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps)
)
def test_anything_is_an_event_or_refused_and_never_told(value: bytes | str) -> None:
    with pytest.raises(MalformedEvent):
        parse(value)


def test_a_refusal_holds_nothing_of_the_message() -> None:
    for value in (changed(event_id=TOKEN), changed(occurred_at=TOKEN), f'"{TOKEN}"', f"{{{TOKEN}"):
        with pytest.raises(MalformedEvent) as failure:
            parse(value)
        assert TOKEN not in str(failure.value)
        assert failure.value.__cause__ is None


def test_it_needs_psycopg_and_nothing_of_the_service() -> None:
    code = "import sys, assay.consumer; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(told.stdout.split())
    assert {"psycopg", "assay.consumer.inbox"} <= modules
    assert not modules & {"aiohttp", "typer", "rich", "structlog", "cryptography", "confluent_kafka"}
    assert not {
        each for each in modules if each.startswith(("assay.adapters", "assay.app", "assay.pipeline"))
    }


# --- signatures ---------------------------------------------------------------------------------------


def hmac_of(key: bytes, message: bytes) -> str:
    """HMAC-SHA256 by its definition in RFC 2104, for a key of at most one block."""
    block = key.ljust(64, b"\x00")
    inner = hashlib.sha256(bytes(each ^ 0x36 for each in block) + message).digest()
    return base64.b64encode(hashlib.sha256(bytes(each ^ 0x5C for each in block) + inner).digest()).decode()


def test_signed_is_id_time_and_body() -> None:
    assert sign("m-1", 1_700_000_000, b'{"a":1}', [SECRET, OLD]) == {
        "webhook-id": "m-1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": " ".join(
            "v1," + hmac_of(key, b'm-1.1700000000.{"a":1}') for key in (SECRET, OLD)
        ),
    }


@pytest.mark.parametrize("secrets", [(SECRET,), (OLD,), (OLD, SECRET)])
@pytest.mark.parametrize("now", [1_000.0, 700.0, 1_300.0])
def test_a_signed_request_is_believed_by_who_has_one_of_the_secrets(
    secrets: tuple[bytes, ...], now: float
) -> None:
    headers = {name.title(): value for name, value in sign("m", 1_000, BODY, [SECRET, OLD]).items()}
    assert verify(BODY, headers, secrets, now) == "m"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"webhook-id": "n"}, "No signature fits"),
        ({"webhook-timestamp": "1001"}, "No signature fits"),
        ({"webhook-signature": "v1,AAAA"}, "No signature fits"),
        ({"webhook-signature": "ü ü"}, "No signature fits"),
        ({"webhook-signature": ""}, "lacks"),
        ({"webhook-id": ""}, "lacks"),
        ({"webhook-timestamp": "-1"}, "no number of seconds"),
        ({"webhook-timestamp": "٣"}, "no number of seconds"),
        ({"webhook-timestamp": "699"}, "too long ago"),
        ({"webhook-timestamp": "1301"}, "too long ago"),
    ],
)
def test_what_is_not_as_it_was_signed_is_not_believed(changes: dict[str, str], complaint: str) -> None:
    with pytest.raises(BadSignature, match=complaint):
        verify(BODY, {**sign("m", 1_000, BODY, [SECRET]), **changes}, [SECRET], 1_000.0)


def test_another_body_or_another_secret_is_not_believed() -> None:
    headers = sign("m", 1_000, BODY, [SECRET])
    for body, secrets in ((BODY + b" ", [SECRET]), (BODY, [OLD]), (BODY, [])):
        with pytest.raises(BadSignature, match="No signature fits"):
            verify(body, headers, secrets, 1_000.0)


def test_secrets_come_with_and_without_their_prefix_and_at_most_two() -> None:
    text = base64.b64encode(SECRET).decode()
    assert secrets_of(text) == (SECRET,)
    assert secrets_of(f"whsec_{text}, {base64.b64encode(OLD).decode()}") == (SECRET, OLD)
    for bad in ("", "secret!", text[:8], f"{text},{text},{text}", f"{text},"):
        with pytest.raises(ValueError, match="secret") as failure:
            secrets_of(bad)
        assert text not in str(failure.value)
