"""What the read side says of work done through the real stores: at one moment, in little memory, no more than
may be known."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Final
from uuid import UUID

import psycopg
import pytest
from finishes import accepted, answered, parked, referred, refused
from many_tasks import fill
from psycopg import errors
from stores import LEASE, Bench, Station, open_bench, register, register_source

from assay.adapters.postgres.explain_store import ExplainStore
from assay.adapters.postgres.reading import reading
from assay.adapters.postgres.result_store import Annotation, ResultStore, Selection
from assay.adapters.postgres.status_store import StatusStore, VersionStatus
from assay.adapters.vault import Vault, WrongVaultKey
from assay.domain.failures import AssayError
from assay.domain.lifecycle import TaskState
from assay.domain.sealing import label_aad
from assay.domain.work import ClaimedTask, Finish, Label, accept

MANY: Final = 60_000
READ: Final = """
import sys
from assay.adapters.postgres.result_store import ResultStore, Selection
rows = ResultStore(sys.argv[1]).annotations(Selection("tickets", (int(sys.argv[2]),)))
print(len(list(rows)) if sys.argv[3] == "hold" else sum(1 for _ in rows))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")))
"""


@pytest.fixture
def bench(db_url: str) -> Iterator[Bench]:
    with open_bench(db_url) as made:
        made.stop_clock()
        yield made


def read(bench: Bench, *, vault: Vault | None = None, with_text: bool = False) -> dict[str, Annotation]:
    selection = Selection(bench.name, (bench.version_id,))
    found = ResultStore(bench.url, vault).annotations(selection, with_text=with_text)
    return {annotation.record_id: annotation for annotation in found}


def sealed(bench: Bench, task: ClaimedTask, whole: str) -> Finish:
    """An accepted answer whose reason is in the vault."""
    seal = bench.vault.seal(task.key, whole.encode(), label_aad(task.identity, task.sha256, task.task_id))
    return accept(task, Label('{"category":"billing"}', seal, Decimal("0.9")), answered(), Decimal("0.8"))


WHOLE: Final = '{"category":"billing","reason":"because","amount":60.30}'


def test_an_export_shows_one_moment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.adapters.postgres.result_store.BATCH", 1)
    with Station(bench, "w") as station:
        first, last = station.claim_one(bench.offer("a")), station.claim_one(bench.offer("z"))
        station.finish(accepted(first))
        rows = ResultStore(bench.url).annotations(Selection(bench.name, (bench.version_id,)))
        assert next(rows).record_id == "a"
        station.finish(accepted(last))
        assert [row.state for row in rows] == [TaskState.PROCESSING]
    assert read(bench)["z"].state is TaskState.AUTO_CANDIDATE


def test_an_export_needs_no_more_memory_for_more_rows(db_url: str) -> None:
    """Measured as the peak of a process of its own; holding all rows is the negative control."""
    with psycopg.connect(db_url, autocommit=True) as db:
        version_id, source_id = register(db_url, "tickets", "m"), register_source(db, "tickets")
    fill(db_url, count=MANY, version_id=version_id, source_id=source_id)
    nothing, streamed, held = (
        _peak_kilobytes(db_url, version, how)
        for version, how in ((0, "stream"), (version_id, "stream"), (version_id, "hold"))
    )
    assert streamed - nothing < 12_000
    assert held - nothing > 25_000


def _peak_kilobytes(url: str, version_id: int, how: str) -> int:
    # The peak as the process itself sees it: what the kernel tells its parent includes the parent's own size.
    ended = subprocess.run(
        [sys.executable, "-c", READ, url, str(version_id), how], capture_output=True, text=True, check=True
    )
    rows, peak = map(int, ended.stdout.split())
    assert rows == (MANY if version_id else 0)
    return peak


def test_sealed_labels_and_texts_open_with_the_right_key_alone(bench: Bench) -> None:
    with Station(bench, "w") as station:
        station.finish(sealed(bench, station.claim_one(bench.offer("r")), WHOLE))
    assert read(bench)["r"].label == {"category": "billing"}
    opened = read(bench, vault=bench.vault)["r"]
    assert opened.label == {"category": "billing", "reason": "because", "amount": "60.30"}
    assert opened.text is None
    assert read(bench, vault=bench.vault, with_text=True)["r"].text == "text of r"
    with pytest.raises(WrongVaultKey):
        read(bench, vault=Vault(b"another key that has thirty-two "))


def test_what_was_erased_is_left_out_and_what_was_lost_is_told(bench: Bench) -> None:
    with Station(bench, "w") as station:
        for record_id in ("erased", "kept"):
            station.finish(sealed(bench, station.claim_one(bench.offer(record_id)), WHOLE))
    bench.rows(
        "WITH gone AS (UPDATE assay.annotation_tasks SET state = 'erased', moves = moves + 1, "
        "last_move = 'erase' WHERE record_id = 'erased' RETURNING encrypted_text_ref) "
        "DELETE FROM assay_vault.texts USING gone WHERE text_ref = encrypted_text_ref RETURNING text_ref"
    )
    found = read(bench, vault=bench.vault, with_text=True)
    assert (found["erased"].text, found["kept"].text) == (None, "text of kept")
    bench.rows("DELETE FROM assay_vault.labels RETURNING label_ref")
    with pytest.raises(AssayError, match=r"belongs to record kept; run `assay audit`"):
        read(bench, vault=bench.vault)
    bench.rows("DELETE FROM assay_vault.texts RETURNING text_ref")
    with pytest.raises(AssayError, match=r"the keys of record kept; run `assay audit`"):
        read(bench, vault=bench.vault, with_text=True)


def test_answers_are_those_of_the_newest_input_version(bench: Bench) -> None:
    with Station(bench, "w") as station:
        for version in (1, 2):
            station.finish(sealed(bench, station.claim_one(bench.offer("twice", version)), WHOLE))
        station.finish(refused(station.claim_one(bench.offer("dead"))))
        station.finish(referred(station.claim_one(bench.offer("person"))))
        station.claim_one(bench.offer("at-work"))
    asked = ["twice", "dead", "person", "at-work", "unknown"]
    found = {
        each.record_id: each for each in ResultStore(bench.url).answers(bench.version_id, asked, "category")
    }
    assert set(found) == {"twice", "dead", "person", "at-work"}
    assert (found["twice"].input_version, found["twice"].value) == (2, "billing")
    assert (found["dead"].state, found["dead"].labelled) == (TaskState.QUARANTINED, False)
    assert found["dead"].errors == (("", "json_invalid"),)
    assert (found["person"].state, found["person"].value) == (TaskState.REVIEW_PENDING, "billing")
    assert found["at-work"].state is TaskState.PROCESSING
    (hidden,) = ResultStore(bench.url).answers(bench.version_id, ["twice"], "reason")
    (opened,) = ResultStore(bench.url, bench.vault).answers(bench.version_id, ["twice"], "reason")
    assert (hidden.labelled, opened.labelled, opened.value) == (False, True, "because")


def test_status_tells_living_leases_from_expired_ones(bench: Bench) -> None:
    with Station(bench, "w") as station:
        station.claim_one(bench.offer("first"))
        bench.advance(LEASE + 1)
        station.claim_one(bench.offer("second"))
        station.finish(parked(station.claim_one(bench.offer("later")), 30.0))
        station.finish(parked(station.claim_one(bench.offer("much-later")), 600.0))
        bench.advance(31)
        (status,) = _versions(bench)
    assert (status.waiting["live_leases"], status.waiting["expired_leases"]) == (1, 1)
    assert (status.waiting["parked"], status.waiting["due"]) == (2, 1)
    assert status.counts == {"processing": 2, "retry_scheduled": 2}
    assert status.calls["failed"] == 2


def _versions(bench: Bench) -> list[VersionStatus]:
    return StatusStore(bench.url).read().versions


def test_explain_shows_a_take_over_and_the_call_that_nobody_reported(bench: Bench) -> None:
    with Station(bench, "lost") as lost, Station(bench, "heir") as heir:
        first = lost.claim_one(bench.offer("r"))
        bench.advance(LEASE + 1)
        second = heir.claim_one(bench.offer("r"))
        held = ExplainStore(bench.url).explain("r").annotations[0]
        heir.finish(accepted(second))
        lost.finish(accepted(first))
    assert (held.task["attempt_id"], held.task["lease_expired"]) == (second.attempt_id, False)
    (annotation,) = ExplainStore(bench.url).explain("r").annotations
    moves = [(move["move"], move["actor"], move["replaced_attempt_id"]) for move in annotation.moves]
    assert moves == [
        ("claim", "lost", None),
        ("take_over", "heir", first.attempt_id),
        ("accept", "heir", None),
    ]
    calls: dict[object, object] = {call["attempt_id"]: call["outcome"] for call in annotation.calls}
    expected: dict[UUID, str] = {first.attempt_id: "lease_lost", second.attempt_id: "accepted"}
    assert calls == expected
    assert [call["outcome"] for call in held.calls] == ["outcome_unknown"]


def test_explain_can_be_narrowed(bench: Bench) -> None:
    with Station(bench, "w") as station:
        for version in (1, 2):
            station.finish(accepted(station.claim_one(bench.offer("r", version))))
    store = ExplainStore(bench.url)
    assert [each.task["input_version"] for each in store.explain("r").annotations] == [1, 2]
    narrow = store.explain("r", input_version=2, name=bench.name)
    assert [row["input_version"] for row in narrow.inputs] == [2]
    assert [each.task["state"] for each in narrow.annotations] == ["auto_candidate"]
    assert store.explain("r", name="another").annotations == []
    assert store.explain("q").near == ("r",)


def test_reading_cannot_write(db_url: str) -> None:
    with reading(db_url) as connection, pytest.raises(errors.ReadOnlySqlTransaction):
        connection.execute("DELETE FROM assay.results")
