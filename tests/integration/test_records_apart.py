"""One record's trouble stays its own: ages, unreadable texts, subjects' keys, positions, defects."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from decimal import Decimal
from functools import partial

import pytest
from finishes import accepted, parked
from scripted_run import Ticket
from stores import RESERVE, Bench, open_bench, race, register, register_source, stations

from assay import Pipeline, Prompt, Route
from assay.adapters.postgres.version_store import VersionStore
from assay.adapters.vault import VaultError
from assay.domain.digest import definition_digest
from assay.domain.failures import RequestProviderError
from assay.domain.identity import Attributes
from assay.domain.lifecycle import TaskState
from assay.domain.sealing import raw_aad
from assay.domain.work import CallRecord, ClaimedTask, Isolation, Offer
from assay.pipeline.attempt import MAX_TAKE_OVERS, MOST_REFUSED, Annotator, Underway, cut_off
from assay.pipeline.flow import Flow
from assay.pipeline.flow_settings import FlowSettings
from assay.ports import ModelPort, ModelRequest, ModelResponse

DAY = 24 * 3600.0


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as opened:
        opened.stop_clock()
        yield opened


def of_subject(offer: Offer, subject: str) -> Offer:
    attributes = Attributes(subject_id=subject)
    return dataclasses.replace(offer, record=dataclasses.replace(offer.record, attributes=attributes))


def test_a_drained_task_does_not_age(bench: Bench) -> None:
    with stations(bench, 1) as (station,):
        task = station.claim_one(bench.offer("r"))
        station.finish(cut_off(task, Underway(), RESERVE))
        bench.advance(25 * 3600)
        (again,) = station.claim_waiting()
    assert again.age_seconds == 0.0


def test_waits_that_were_asked_for_and_attempts_do_age(bench: Bench) -> None:
    with stations(bench, 1) as (station,):
        task = station.claim_one(bench.offer("r"))
        bench.advance(7)
        station.finish(parked(task, 30.0))
        bench.advance(DAY)  # nobody ran: only the 30 seconds of the park count
        (again,) = station.claim_waiting()
    assert again.age_seconds == pytest.approx(37.0)


def test_one_unreadable_text_does_not_stop_the_others(bench: Bench) -> None:
    with stations(bench, 1) as (station,):
        offers = [bench.offer("a"), of_subject(bench.offer("b"), "s1"), bench.offer("c"), bench.offer("d")]
        for offer in offers:
            station.finish(parked(station.claim_one(offer)))
        bench.db.execute("DELETE FROM assay_vault.subject_keys WHERE subject_id = 's1'")
        bench.db.execute(
            "UPDATE assay_vault.texts SET ciphertext = ciphertext || 'x' FROM assay.inputs i "
            "WHERE i.record_id = 'c' AND text_ref = i.encrypted_text_ref"
        )
        bench.db.execute(
            "DELETE FROM assay_vault.texts USING assay.inputs i "
            "WHERE i.record_id = 'd' AND text_ref = i.encrypted_text_ref"
        )
        claimed = {task.record_id: task for task in station.claim_waiting()}
    assert {record_id: task.readable for record_id, task in claimed.items()} == {
        "a": True, "b": False, "c": False, "d": False,
    }  # fmt: skip
    assert claimed["a"].text == "text of a"
    assert claimed["b"].text == claimed["c"].text == claimed["d"].text == ""


def test_a_conflicts_bytes_stand_under_its_subjects_key(bench: Bench) -> None:
    with stations(bench, 1) as (station,):
        record = of_subject(bench.offer("r", text="other content"), "s1").record
        station.run(station.sources.isolate(bench.source_id, [Isolation.of_conflict(record)]))
    ((subject, kek_id, wrapped, sealed),) = bench.rows(
        "SELECT subject_id, kek_id, wrapped_key, ciphertext FROM assay_vault.raws"
    )
    assert subject == "s1"
    with pytest.raises(VaultError):
        bench.vault.unwrap(wrapped, kek_id)
    ((subject_wrapped,),) = bench.rows("SELECT wrapped_key FROM assay_vault.subject_keys")
    key = bench.vault.unwrap(wrapped, kek_id, bench.vault.unwrap(subject_wrapped, kek_id))
    aad = raw_aad(bench.source_id, 0, record.position.offset)
    assert bench.vault.open(key, sealed, aad) == b"other content"


def test_two_versions_that_meet_at_new_inputs_leave_no_position_without_destination(bench: Bench) -> None:
    other = dataclasses.replace(
        bench, version_id=register(bench.url, bench.name, "other"),
        source_id=register_source(bench.db, f"{bench.name}-other"),
    )  # fmt: skip
    with stations(bench, 2) as (a, b):
        b.work_for(other)
        for meeting in range(60):
            offers = [bench.offer(f"{meeting}-{number}") for number in range(20)]
            race(
                (a, partial(a.claims.claim, bench.source_id, offers)),
                (b, partial(b.claims.claim, other.source_id, offers)),
            )
    homeless = bench.rows(
        "SELECT s.source_id, i.source_offset FROM assay.inputs i "
        "CROSS JOIN (VALUES (%s::int), (%s)) AS s (source_id) "
        "WHERE i.source_id <> s.source_id AND NOT EXISTS ("
        "  SELECT FROM assay.source_duplicates d "
        "  WHERE d.source_id = s.source_id AND d.source_offset = i.source_offset)",
        bench.source_id, other.source_id,
    )  # fmt: skip
    assert homeless == []
    assert bench.one("SELECT count(*) FROM assay.annotation_tasks") == 2 * 60 * 20


def test_what_a_lost_call_is_charged_at_follows_the_price(bench: Bench) -> None:
    definition = {"format": 1, "model": "m"}
    version_id, new = VersionStore(bench.url).register(
        name=bench.name, pipeline_version=definition_digest(definition), definition=definition, label=None,
        code_commit=None, call_reserve=Decimal("0.5"),
    )  # fmt: skip
    assert (version_id, new) == (bench.version_id, False)
    assert bench.one("SELECT call_reserve FROM assay.pipeline_versions") == Decimal("0.5")


class DefectiveModel:
    """An adapter with a defect that some records bring out."""

    @property
    def account(self) -> None:
        return None

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise ValueError(request.messages[-1][1])

    async def aclose(self) -> None:
        return


def annotator_of(bench: Bench, model: ModelPort) -> Annotator:
    async def note(task: ClaimedTask, code: str, call: CallRecord) -> bool:
        return True

    pipeline = Pipeline(
        name="t", contract=Ticket, model="openai:m", prompt=Prompt("Label."), route=Route(0.5)
    )
    return Annotator(
        pipeline,
        model,
        bench.vault,
        Flow(None, FlowSettings(), clock=time.monotonic, chance=lambda: 0.5),
        note_first_pass=note,
        chance=lambda: 0.5,
        probe=lambda _: None,
    )


async def annotate(bench: Bench, task: ClaimedTask) -> tuple[TaskState, str, CallRecord | None]:
    finish = await annotator_of(bench, DefectiveModel()).annotate(task, Underway())
    return finish.state, finish.reason, next(iter(finish.passes.calls), None)


async def test_a_defect_of_an_adapter_is_one_records_and_tells_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    with stations(bench, 1) as (station,):
        task = station.claim_one(bench.offer("r", text="SecretText"))
    state, reason, call = await annotate(bench, task)
    assert (state, reason) == (TaskState.RETRY_SCHEDULED, "provider_adapter_error")
    assert call is not None
    assert call.billed
    assert "provider_adapter_error" in caplog.text
    assert "SecretText" not in caplog.text


async def test_unreadable_and_deadly_records_end_without_a_call(bench: Bench) -> None:
    with stations(bench, 1) as (station,):
        task = station.claim_one(bench.offer("r"))
        station.finish(accepted(task))
    unreadable = dataclasses.replace(task, readable=False, text="")
    assert await annotate(bench, unreadable) == (TaskState.QUARANTINED, "text_unreadable", None)
    deadly = dataclasses.replace(task, take_overs=MAX_TAKE_OVERS + 1)
    assert await annotate(bench, deadly) == (TaskState.QUARANTINED, "attempts_exhausted", None)


class RefusingModel(DefectiveModel):
    """Answers the first request, and refuses every other as it is."""

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.calls += 1
        if self.calls == 1:
            return ModelResponse('{"category": "billing", "confidence": 0.93, "reason": "an invoice"}')
        raise RequestProviderError("provider_request_rejected", status=400, billed=False)


async def test_a_vendor_that_begins_to_refuse_everything_stops_the_version(bench: Bench) -> None:
    """One refusal among answers is the record's own; a row of them tells of the version: nothing is burnt."""
    with stations(bench, 1) as (station,):
        offers = [bench.offer(f"r{number:02}") for number in range(MOST_REFUSED + 3)]
        tasks = [task for _, task in station.claim(offers).won]
    annotator = annotator_of(bench, RefusingModel())
    states = [(await annotator.annotate(task, Underway())).state for task in tasks]
    assert states[0] in {TaskState.AUTO_CANDIDATE, TaskState.REVIEW_PENDING}
    assert states[1] is TaskState.QUARANTINED
    assert set(states[2:]) == {TaskState.RETRY_SCHEDULED}
    assert annotator.stopped is not None
    assert annotator.stopped.code == "provider_settings_rejected"
