"""A vendor that answers with another model is an event, and nothing unproven is accepted after it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Final

import psycopg
import pytest
from finishes import accepted
from stores import Bench, Station, open_bench, race, stations
from waiting import until_blocked

from assay.adapters.postgres.audit_store import AuditStore
from assay.adapters.postgres.version_acts import VersionActs
from assay.adapters.postgres.version_events import VersionEvents
from assay.domain.failures import ConfigurationError
from assay.domain.lifecycle import TaskState

RELEASE: Final = "SELECT frozen, frozen_reason, frozen_by FROM assay.releases WHERE version_id = %s"


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as opened:
        yield opened


def _note(station: Station, model: str) -> bool:
    return station.run(_events(station).note_model(model, f"req-{model}"))


def _events(station: Station) -> VersionEvents:
    return VersionEvents(station.pool, version_id=station.bench.version_id, actor=station.actor)


def _changes(bench: Bench) -> list[tuple[Any, ...]]:
    return bench.rows(
        "SELECT kind, detail ->> 'old', detail ->> 'new' FROM assay.version_events ORDER BY event_no"
    )


def _frozen(bench: Bench) -> bool:
    return bool(bench.rows(RELEASE, bench.version_id)[0][0])


def test_the_first_model_is_the_baseline_and_the_next_one_freezes(bench: Bench) -> None:
    with Station(bench, "worker") as worker:
        assert not _note(worker, "m-2026-01")
        assert not _note(worker, "m-2026-01")
        assert not _frozen(bench)
        before, after = worker.claim_one(bench.offer("a")), worker.claim_one(bench.offer("b"))
        assert worker.finish(accepted(before))[0].state is TaskState.AUTO_CANDIDATE
        assert _note(worker, "m-2026-02")
        assert worker.finish(accepted(after))[0].state is TaskState.REVIEW_PENDING
    assert bench.rows(RELEASE, bench.version_id) == [(True, "model_changed", "worker")]
    assert _changes(bench) == [("model_changed", "m-2026-01", "m-2026-02"), ("frozen", None, None)]
    kinds = bench.rows(
        "SELECT kind, payload ->> 'reason' FROM assay.outbox_events WHERE kind = 'promotion_frozen'"
    )
    assert kinds == [("promotion_frozen", "model_changed")]
    assert AuditStore(bench.url).audit().broken == ()


def test_models_that_alternate_are_told_once_each(bench: Bench) -> None:
    with stations(bench, 2) as (one, two):
        told = [_note(station, f"m-{number}") for number in (1, 2, 1, 2, 3) for station in (one, two)]
    assert told == [False, False, True, False, False, False, False, False, True, False]
    assert [kind for kind, _, _ in _changes(bench)] == ["model_changed", "frozen", "model_changed"]


def test_workers_that_meet_models_at_once_agree_on_one_baseline(bench: Bench) -> None:
    with stations(bench, 4) as workers:
        told = race(
            *(
                (each, lambda each=each, number=number: _events(each).note_model(f"m-{number % 2}"))
                for number, each in enumerate(workers)
            )
        )
    assert sum(told) == 1
    assert bench.rows("SELECT count(*), count(*) FILTER (WHERE baseline) FROM assay.version_models") == [
        (2, 1)
    ]
    assert AuditStore(bench.url).audit().broken == ()


def test_the_note_waits_for_a_finish_that_has_decided(bench: Bench) -> None:
    """And a finish that comes after the note sees its freeze: nothing slips through between the two."""
    decided, go_on = threading.Event(), threading.Event()

    def hold(point: str) -> None:
        if point == "in_finish":
            decided.set()
            assert go_on.wait(60)

    with Station(bench, "worker", probe=hold) as worker, Station(bench, "second") as second:
        _note(second, "m-1")
        one, two = worker.claim_one(bench.offer("a")), second.claim_one(bench.offer("b"))
        finishing = worker.start(worker.finishes.finish([accepted(one)]))
        try:
            assert decided.wait(60)
            noting = second.start(_events(second).note_model("m-2"))
            until_blocked(bench.db)
            assert not noting.done()
        finally:
            go_on.set()
        assert finishing.result(60)[one.attempt_id].state is TaskState.AUTO_CANDIDATE
        assert noting.result(60)
        assert second.finish(accepted(two))[0].state is TaskState.REVIEW_PENDING


def test_a_model_that_a_person_approved_of_is_told_and_freezes_nothing(bench: Bench) -> None:
    acts = VersionActs(bench.url)
    with Station(bench, "worker") as worker:
        _note(worker, "m-1")
        acts.approve(bench.version_id, reason="an alias", actor="ann", model="m-2")
        assert _note(worker, "m-2")
        assert not _frozen(bench)
        # An approval that was taken back covers nothing any more.
        number = acts.approve(bench.version_id, reason="an alias", actor="ann", model="m-3")
        assert acts.revoke(bench.version_id, number, reason="it is not", actor="bob")
        assert not acts.revoke(bench.version_id, number, reason="again", actor="bob")
        assert _note(worker, "m-3")
        assert _frozen(bench)
    models = acts.page(bench.version_id).models
    assert [(each["model"], each["baseline"], each["approved"]) for each in models] == [
        ("m-1", True, False), ("m-2", False, True), ("m-3", False, False),
    ]  # fmt: skip
    assert AuditStore(bench.url).audit().broken == ()


def test_a_version_that_was_unfrozen_is_not_frozen_again_for_the_same_model(bench: Bench) -> None:
    acts = VersionActs(bench.url)
    with Station(bench, "worker") as worker:
        _note(worker, "m-1")
        _note(worker, "m-2")
        assert acts.unfreeze(bench.version_id, reason="compared", actor="ann")
        _note(worker, "m-1")
        _note(worker, "m-2")
        assert not _frozen(bench)


def test_an_approval_is_of_the_stage_at_which_it_is_given(bench: Bench) -> None:
    acts = VersionActs(bench.url)
    acts.approve(bench.version_id, reason="checked 200 by hand", actor="ann")
    bench.db.execute("UPDATE assay.releases SET stage = 'canary'")
    with pytest.raises(ConfigurationError, match="stage is canary"):
        acts.approve(bench.version_id, reason="again", actor="ann")
    bench.db.execute("UPDATE assay.releases SET stage = 'rolled_back'")
    acts.approve(bench.version_id, reason="people decided these", actor="bob")
    approvals = acts.page(bench.version_id).approvals
    assert [(each["kind"], each["approved_by"], each["revoked_at"]) for each in approvals] == [
        ("unproven", "ann", None), ("rolled_back", "bob", None),
    ]  # fmt: skip
    assert AuditStore(bench.url).audit().broken == ()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE assay.version_approvals SET reason = 'other'",
        "UPDATE assay.version_approvals SET revoked_at = now()",
        "DELETE FROM assay.version_approvals",
        "UPDATE assay.version_models SET baseline = true",
        "DELETE FROM assay.version_models",
        "INSERT INTO assay.version_models VALUES (1, 'm-9', true, now(), 'x')",
        "INSERT INTO assay.version_approvals (version_id, kind, reason, approved_at, approved_by) "
        "VALUES (1, 'model', 'of none', now(), 'x')",
    ],
)
def test_the_database_keeps_approvals_and_models_as_they_were(bench: Bench, change: str) -> None:
    acts = VersionActs(bench.url)
    acts.approve(bench.version_id, reason="x", actor="ann")
    with Station(bench, "worker") as worker:
        _note(worker, "m-1")
    with pytest.raises(psycopg.Error):
        bench.db.execute(change.encode())


def test_freezing_and_unfreezing_is_logged_once_each(bench: Bench) -> None:
    acts = VersionActs(bench.url)
    assert acts.freeze(bench.version_id, reason="drift", actor="ann")
    assert not acts.freeze(bench.version_id, reason="drift again", actor="bob")
    assert acts.unfreeze(bench.version_id, reason="looked at", actor="bob")
    assert not acts.unfreeze(bench.version_id, reason="again", actor="bob")
    rows = bench.rows("SELECT kind, actor, detail ->> 'reason' FROM assay.version_events ORDER BY event_no")
    assert rows == [("frozen", "ann", "drift"), ("unfrozen", "bob", "looked at")]
