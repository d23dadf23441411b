"""An event's bytes and headers, and what may change in a published schema."""

from __future__ import annotations

import copy
import json
import runpy
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from assay.consumer.event import KNOWN, NOTES
from assay.domain.events import SCHEMA_VERSION, UnfitEvent, body_of, headers_of
from assay.domain.events_bodies import BODIES, schema_of
from assay.domain.events_compatibility import incompatibilities
from assay.domain.outbox import OutboxEvent

ROOT = Path(__file__).parents[2]
PAYLOAD = {
    "pipeline": "tickets", "pipeline_version": "ab" * 32, "record_id": "r-1", "input_version": 1,
    "revision": 3, "state": "auto_candidate", "label": {"category": "billing", "amount": Decimal("10.50")},
    "error_code": None, "review_reason": None,
}  # fmt: skip


def event(**changes: Any) -> OutboxEvent:
    told: dict[str, Any] = {
        "event_id": UUID(int=7), "outbox_id": 1, "aggregate_kind": "result", "aggregate_id": "tickets/r-1",
        "kind": "completed", "revision": 3, "task_id": 5, "payload": PAYLOAD,
        "created_at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=2))),
    }  # fmt: skip
    return OutboxEvent(**{**told, **changes})


def test_the_body_is_one_line_with_its_keys_in_order_and_digits_as_they_are() -> None:
    assert body_of(event()).decode() == (
        '{"event_id":"00000000-0000-0000-0000-000000000007","kind":"completed","schema":1,'
        '"aggregate":{"kind":"result","id":"tickets/r-1"},"revision":3,"epoch":0,'
        '"occurred_at":"2026-01-02T01:04:05.000006Z","data":{"error_code":null,"input_version":1,'
        '"label":{"amount":10.50,"category":"billing"},"pipeline":"tickets","pipeline_version":"'
        + "ab" * 32
        + '","record_id":"r-1","review_reason":null,"revision":3,"state":"auto_candidate"}}'
    )


def test_the_body_does_not_depend_on_the_order_of_the_payload() -> None:
    assert body_of(event(payload=dict(reversed(PAYLOAD.items())))) == body_of(event())


def test_an_event_whose_id_fits_no_epoch_tells_todays() -> None:
    assert b'"epoch":3,' in body_of(event(restore_epoch=3))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"))
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), values, max_size=4))
def test_any_payload_comes_back_and_is_written_alike_beside_a_decimal(payload: dict[str, Any]) -> None:
    plain = body_of(event(payload=payload))
    assert json.loads(plain)["data"] == payload
    assert b"\n" not in plain
    wrapped = body_of(event(payload={"exact": Decimal("1.0"), "payload": payload}))
    assert wrapped.endswith(b'{"exact":1.0,"payload":' + plain[plain.index(b'"data":') + 7 : -1] + b"}}")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "of_a_later_release"}, "event_kind_unknown"),
        ({"payload": {"number": float("nan")}}, "event_unwritable"),
        ({"payload": {"number": Decimal("Infinity")}}, "event_unwritable"),
        ({"payload": {"text": "\ud800"}}, "event_unwritable"),
        ({"payload": {"set": {1}}}, "event_unwritable"),
        ({"payload": {"exact": Decimal(1), "set": {1}}}, "event_unwritable"),
        ({"payload": {"exact": Decimal(1), "of": {1: 2}}}, "event_unwritable"),
    ],
)
def test_what_cannot_be_written_says_so_with_a_code(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnfitEvent) as failure:
        body_of(event(**changes))
    assert failure.value.reason == reason


def test_headers_are_those_of_cloudevents() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    told = headers_of(event(payload={**PAYLOAD, "traceparent": trace, "correlation_id": "c-1"}), "/prod")
    assert told == {
        "ce_specversion": "1.0", "ce_id": "00000000-0000-0000-0000-000000000007", "ce_source": "/prod",
        "ce_type": "assay.result.completed.v1", "ce_time": "2026-01-02T01:04:05.000006Z",
        "ce_subject": "tickets/r-1", "ce_dataschema": "urn:assay:event:completed:v1",
        "content-type": "application/json", "correlation-id": "c-1", "traceparent": trace,
    }  # fmt: skip


@pytest.mark.parametrize("given_id", ["line\r\nbreak", "", "ü", "x" * 257, 7, None])
def test_what_is_not_fit_for_a_header_stays_out_of_them(given_id: object) -> None:
    assert "correlation-id" not in headers_of(event(payload={**PAYLOAD, "correlation_id": given_id}))


def test_a_body_fits_its_model_and_one_with_more_does_not() -> None:
    BODIES["completed"].model_validate_json(body_of(event()))
    for payload in (
        {**PAYLOAD, "text": "what the customer wrote"},
        {**PAYLOAD, "state": "shadowed"},
        {key: value for key, value in PAYLOAD.items() if key != "record_id"},
    ):
        with pytest.raises(ValidationError):
            BODIES["completed"].model_validate_json(body_of(event(payload=payload)))


def test_every_kind_has_a_version_a_model_and_is_known_to_the_consumer() -> None:
    assert SCHEMA_VERSION.keys() == BODIES.keys()
    assert SCHEMA_VERSION == KNOWN
    assert KNOWN.keys() >= NOTES


def test_published_schemas_are_open_to_further_fields() -> None:
    for kind in BODIES:
        assert '"additionalProperties": false' not in json.dumps(schema_of(kind))


# --- what may change ----------------------------------------------------------------------------------


def data_of(schema: dict[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = schema["$defs"]["CompletedData"]
    return data


def add_optional(schema: dict[str, Any]) -> None:
    data_of(schema)["properties"]["new"] = {"type": "string"}


def change_words(schema: dict[str, Any]) -> None:
    data_of(schema)["properties"]["label"]["description"] = "Other words."
    schema["description"] = "Other words."


def rename_definition(schema: dict[str, Any]) -> None:
    schema["$defs"]["Other"] = schema["$defs"].pop("CompletedData")
    schema["properties"]["data"]["$ref"] = "#/$defs/Other"


def add_required(schema: dict[str, Any]) -> None:
    add_optional(schema)
    data_of(schema)["required"].append("new")


def drop_field(schema: dict[str, Any]) -> None:
    del data_of(schema)["properties"]["traceparent"]


def relax_required(schema: dict[str, Any]) -> None:
    data_of(schema)["required"].remove("record_id")


def widen_enumeration(schema: dict[str, Any]) -> None:
    data_of(schema)["properties"]["state"]["enum"].append("reviewed")


def change_type(schema: dict[str, Any]) -> None:
    data_of(schema)["properties"]["record_id"]["type"] = "integer"


def drop_bound(schema: dict[str, Any]) -> None:
    del data_of(schema)["properties"]["input_version"]["minimum"]


def widen_nullable(schema: dict[str, Any]) -> None:
    data_of(schema)["properties"]["label"]["anyOf"].append({"type": "array"})


def close(schema: dict[str, Any]) -> None:
    data_of(schema)["additionalProperties"] = False


def raise_version(schema: dict[str, Any]) -> None:
    schema["properties"]["schema"]["const"] = 2


@pytest.mark.parametrize("change", [add_optional, change_words, rename_definition])
def test_a_compatible_change_passes(change: Callable[[dict[str, Any]], None]) -> None:
    now = copy.deepcopy(schema_of("completed"))
    change(now)
    assert now != schema_of("completed")
    assert incompatibilities(schema_of("completed"), now) == []


@pytest.mark.parametrize(
    "change",
    [
        add_required, drop_field, relax_required, widen_enumeration, change_type, drop_bound, widen_nullable,
        close, raise_version,
    ],
)  # fmt: skip
def test_an_incompatible_change_is_named(change: Callable[[dict[str, Any]], None]) -> None:
    now = copy.deepcopy(schema_of("completed"))
    change(now)
    assert len(incompatibilities(schema_of("completed"), now)) == 1


@pytest.mark.parametrize("kind", BODIES)
def test_todays_schema_is_compatible_with_the_published_one(kind: str) -> None:
    file = ROOT / "docs" / "events" / f"{kind}.v{SCHEMA_VERSION[kind]}.schema.json"
    assert incompatibilities(json.loads(file.read_text("utf-8")), schema_of(kind)) == []


def test_the_tool_finds_the_folder_in_step_and_an_incompatible_one_not(tmp_path: Path) -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "render_event_schemas.py"))
    assert tool["problems"](ROOT) == []
    folder = tmp_path / "docs" / "events"
    folder.mkdir(parents=True)
    for name, text in tool["render"]().items():
        (folder / name).write_text(text, "utf-8")
    assert tool["problems"](tmp_path) == []
    published = json.loads((folder / "completed.v1.schema.json").read_text("utf-8"))
    data_of(published)["properties"]["gone"] = {"type": "string"}
    (folder / "completed.v1.schema.json").write_text(json.dumps(published), "utf-8")
    assert tool["problems"](tmp_path) == [
        "completed.v1.schema.json/data/gone: the field was taken away; raise the kind's version"
    ]
