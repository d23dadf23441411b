"""A stop holds a version for all its workers until somebody clears it, and says who did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from stores import Bench, Station, open_bench, race, register, stations

from assay.adapters.postgres.audit_store import AuditStore
from assay.adapters.postgres.version_acts import VersionActs
from assay.adapters.postgres.version_events import STOPPED_BY_PERSON, VersionEvents
from assay.adapters.postgres.version_store import VersionStore
from assay.domain.failures import ConfigurationError


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as opened:
        yield opened


def _events(station: Station, version_id: int | None = None) -> VersionEvents:
    return VersionEvents(station.pool, version_id=version_id or station.bench.version_id, actor=station.actor)


def _log(bench: Bench) -> list[tuple[Any, ...]]:
    return bench.rows("SELECT kind, actor, detail ->> 'code' FROM assay.version_events ORDER BY event_no")


def _healthy(bench: Bench) -> None:
    assert AuditStore(bench.url).audit().broken == ()


def test_all_workers_of_the_version_see_the_stop_and_no_others(bench: Bench) -> None:
    other = register(bench.url, bench.name, "another model")
    with stations(bench, 2) as (one, two):
        assert one.run(_events(one).stopped()) is None
        assert one.run(_events(one).stop("provider_auth", 401))
        stop = two.run(_events(two).stopped())
        assert stop is not None
        assert (stop.code, stop.http_status, stop.stopped_by) == ("provider_auth", 401, "worker-0")
        assert two.run(_events(two, other).stopped()) is None
    assert [row.stopped for row in VersionStore(bench.url).list(bench.name)] == ["provider_auth", None]
    _healthy(bench)


def test_workers_that_fail_at_once_make_one_stop(bench: Bench) -> None:
    with stations(bench, 4) as workers:
        made = race(*((each, lambda each=each: _events(each).stop("provider_auth", 401)) for each in workers))
    assert sorted(made) == [False, False, False, True]
    assert len(_log(bench)) == 1
    _healthy(bench)


def test_a_run_that_begins_again_clears_what_a_failure_left(bench: Bench) -> None:
    acts = VersionActs(bench.url)
    assert acts.clear_stop(bench.version_id, "run-1") is None
    with Station(bench, "worker") as worker:
        events = _events(worker)
        worker.run(events.stop("provider_quota", 429))
        cleared = acts.clear_stop(bench.version_id, "run-2")
        assert cleared is not None
        assert cleared.code == "provider_quota"
        assert worker.run(events.stopped()) is None
        assert worker.run(events.stop("provider_auth", 403)), "a version can be stopped again"
    assert _log(bench) == [
        ("stopped", "worker", "provider_quota"), ("resumed", "run-2", "provider_quota"),
        ("stopped", "worker", "provider_auth"),
    ]  # fmt: skip
    rows = bench.rows("SELECT code, cleared_by FROM assay.version_stops ORDER BY stop_id")
    assert rows == [("provider_quota", "run-2"), ("provider_auth", None)]
    _healthy(bench)


def test_what_a_person_stopped_only_a_person_lets_go_on(bench: Bench) -> None:
    acts = VersionActs(bench.url)
    assert acts.stop(bench.version_id, reason="odd labels", actor="ann")
    assert not acts.stop(bench.version_id, reason="again", actor="bob")
    with pytest.raises(
        ConfigurationError, match=r"ann stopped this version: odd labels\..*resume \w{12} --reason"
    ):
        acts.clear_stop(bench.version_id, "run")
    with Station(bench, "worker") as worker:
        stop = worker.run(_events(worker).stopped())
        assert stop is not None
        assert stop.code == STOPPED_BY_PERSON
        # A failure meanwhile does not take the person's stop's place.
        assert not worker.run(_events(worker).stop("provider_auth", 401))
    assert acts.resume(bench.version_id, reason="looked at", actor="bob")
    assert not acts.resume(bench.version_id, reason="again", actor="bob")
    page = acts.page(bench.version_id)
    assert [(stop["reason"], stop["cleared_by"]) for stop in page.stops] == [("odd labels", "bob")]
    assert [event["kind"] for event in page.events] == ["resumed", "stopped"]
    _healthy(bench)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE assay.version_stops SET code = 'other'",
        "UPDATE assay.version_stops SET cleared_at = now(), cleared_by = NULL",
        "DELETE FROM assay.version_stops",
        "UPDATE assay.version_events SET actor = 'other'",
        "DELETE FROM assay.version_events",
        "INSERT INTO assay.version_stops (version_id, code, stopped_at, stopped_by) "
        "SELECT version_id, 'second', now(), 'x' FROM assay.version_stops",
    ],
)
def test_the_database_keeps_stops_and_log_as_they_were(bench: Bench, change: str) -> None:
    VersionActs(bench.url).stop(bench.version_id, reason="x", actor="ann")
    with pytest.raises(psycopg.Error):
        bench.db.execute(change.encode())
    bench.db.execute("UPDATE assay.version_stops SET cleared_at = now(), cleared_by = 'bob'")
    with pytest.raises(psycopg.Error):
        bench.db.execute("UPDATE assay.version_stops SET cleared_by = 'eve'")
