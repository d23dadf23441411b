"""What a real run leaves in the outbox: every event fits its published schema and holds no text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import psycopg
import pytest
from psycopg.rows import class_row
from psycopg.types.json import set_json_loads
from pydantic import ValidationError
from scripted_run import ScriptedModel, pipeline_of, run
from stores import Bench, open_bench

from assay.adapters.postgres.dead_letter_acts import DeadLetterActs
from assay.adapters.postgres.version_store import VersionStore
from assay.app import RunPlan, run_pipeline
from assay.consumer import Inbox, parse
from assay.domain.events import SCHEMA_VERSION, body_of, headers_of
from assay.domain.events_bodies import BODIES
from assay.domain.identity import MalformedInput, SourceItem, SourcePosition
from assay.domain.outbox import OutboxEvent
from assay.pipeline.limits import WorkerLimits
from assay.pipeline.progress import Progress

SECRET: Final = "Zmeinogorsk-4711"
"""Stands in every text, answer and isolated piece; has no place in an event."""


def answer(**changes: object) -> str:
    return json.dumps({"category": "billing", "confidence": 0.93, "reason": f"of {SECRET}", **changes})


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as opened:
        yield opened


def events_of(bench: Bench) -> list[OutboxEvent]:
    """The outbox in order, with numbers as they are stored."""
    with psycopg.connect(bench.url, row_factory=class_row(OutboxEvent)) as db:
        set_json_loads(lambda text: json.loads(text, parse_float=Decimal), db)
        return db.execute(
            "SELECT event_id, outbox_id, aggregate_kind, aggregate_id, e.kind, revision, task_id, payload, "
            "e.created_at, restore_epoch FROM assay.outbox_events e, assay.instance ORDER BY outbox_id"
        ).fetchall()


def everything_that_makes_an_event(bench: Bench) -> None:
    """Accepted, referred, refused, closed, superseded, in conflict, isolated, frozen."""
    bad = f"Here you are: {answer()}"
    script = {
        "accepted": [answer(), answer(confidence=0.9)], "referred": [answer(confidence=0.25)],
        "refused": [bad, bad], "frozen": [answer()],
    }  # fmt: skip
    model = ScriptedModel(script)
    first = [
        bench.offer(name, text=f"{SECRET} {name}").record for name in ("accepted", "referred", "refused")
    ]
    run(bench, first, model)
    ((letter,),) = bench.db.execute("SELECT dead_letter_id FROM assay.dead_letters").fetchall()
    DeadLetterActs(bench.url).close([letter], actor="tester", reason="a test")
    run(bench, [bench.offer("accepted", 2, text=f"{SECRET} again").record], model)
    items: list[SourceItem] = [
        bench.offer("referred", text=f"{SECRET} other").record,
        MalformedInput(
            SourcePosition(0, next(bench.offsets), 2), "second.jsonl", SECRET.encode(), "not_json"
        ),
    ]
    isolate(bench, model, items)
    VersionStore(bench.url).freeze(bench.version_id, reason="an incident", actor="tester")
    run(bench, [bench.offer("frozen", text=SECRET).record], model)


@dataclass(frozen=True)
class Pieces:
    """Pieces of a source, not all of them records."""

    pieces: Sequence[SourceItem]
    name: str = "second.jsonl"
    fingerprint: str | None = None
    total: int | None = None

    async def read(self, start: int = 0) -> AsyncIterator[Sequence[SourceItem]]:
        yield self.pieces[start:]


def isolate(bench: Bench, model: ScriptedModel, pieces: Sequence[SourceItem]) -> None:
    plan = RunPlan(
        url=bench.url, vault=bench.vault, pipeline=pipeline_of(bench), version_id=bench.version_id,
        model=model, sources=[Pieces(pieces)], mapping="{}", limits=WorkerLimits(poll_seconds=0.05),
    )  # fmt: skip
    asyncio.run(run_pipeline(plan, Progress()))


def test_every_event_fits_its_schema_and_holds_no_text(bench: Bench) -> None:
    everything_that_makes_an_event(bench)
    events = events_of(bench)
    assert {event.kind for event in events} == SCHEMA_VERSION.keys()
    for event in events:
        body = body_of(event)
        BODIES[event.kind].model_validate_json(body)
        assert SECRET not in body.decode()
        assert SECRET not in "".join(headers_of(event).values())
        assert parse(body, headers_of(event)).is_known
    states = {event.payload.get("state") for event in events}
    assert states >= {"auto_candidate", "review_pending", "quarantined"}


def test_an_event_tells_the_epoch_that_it_was_written_in(bench: Bench) -> None:
    everything_that_makes_an_event(bench)
    before = {event.event_id: body_of(event) for event in events_of(bench)}
    bench.db.execute("UPDATE assay.instance SET restore_epoch = 2")
    run(bench, [bench.offer("later", text=SECRET).record], ScriptedModel({"later": [answer()]}))
    *old, new = events_of(bench)
    assert {event.event_id: body_of(event) for event in old} == before
    assert {parse(body).epoch for body in before.values()} == {0}
    assert parse(body_of(new)).epoch == 2


def test_a_field_too_many_is_found(bench: Bench) -> None:
    run(bench, [bench.offer("r", text=SECRET).record], ScriptedModel({"r": [answer()]}))
    bench.db.execute("""UPDATE assay.outbox_events SET payload = payload || '{"text": "of a customer"}'""")
    (event,) = events_of(bench)
    with pytest.raises(ValidationError, match="text"):
        BODIES[event.kind].model_validate_json(body_of(event))


def test_numbers_leave_with_the_digits_that_are_stored(bench: Bench) -> None:
    run(bench, [bench.offer("r", text=SECRET).record], ScriptedModel({"r": [answer(confidence=0.910)]}))
    (event,) = events_of(bench)
    stored = bench.one("SELECT payload -> 'label' ->> 'confidence' FROM assay.outbox_events")
    assert f'"confidence":{stored}'.encode() in body_of(event)


def test_a_consumer_of_a_real_outbox_ends_with_what_the_database_serves(bench: Bench) -> None:
    everything_that_makes_an_event(bench)
    consumed = [parse(body_of(event)) for event in events_of(bench)]
    served: dict[str, int] = {}
    with psycopg.connect(bench.url, autocommit=True) as db:
        Inbox.create_table(db)
        for event in [*reversed(consumed), *consumed]:
            with db.transaction():
                new = Inbox("downstream").accept(db, event)
            if new and event.aggregate_kind == "result" and not event.is_note:
                served[event.aggregate_id] = event.data["input_version"]
    rows = bench.rows("SELECT name || '/' || record_id, input_version FROM assay.results")
    assert served == dict(rows)
