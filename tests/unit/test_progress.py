"""What a run counts: settled records are done, parked ones are not, whatever the order of news."""

from __future__ import annotations

from uuid import uuid4

from assay.cli.screen import closing_figures
from assay.domain.failures import FailureClass
from assay.domain.lifecycle import TaskState
from assay.domain.work import (
    ClaimedTask,
    Evidence,
    Finish,
    Finished,
    FinishOutcome,
    Passes,
    dead_letter,
    park,
)
from assay.pipeline.progress import Progress


def task(number: int) -> ClaimedTask:
    return ClaimedTask(
        task_id=number, attempt_id=uuid4(), record_id=f"r{number}", input_version=1, sha256=b"", text="",
        text_ref=1, key=b"", attempts=1, first_pass_code=None, quality_selected=False, tries=1, take_overs=0,
        age_seconds=0.0, taken_over=False,
    )  # fmt: skip


def parked(number: int) -> Finish:
    return park(task(number), 1.0, "provider_timeout", Passes(), uses_attempt=True)


def refused(number: int) -> Finish:
    return dead_letter(task(number), "json_invalid", Evidence(FailureClass.CONTRACT, None, ()), Passes())


def finished(progress: Progress, finish: Finish, *, of_source: bool) -> None:
    """A finish that the store has written; `of_source`: its offset is done with it."""
    progress.count_finish(finish, Finished(FinishOutcome.DONE, finish.state))
    progress.destined += of_source


def begun(skipped: int = 0, waiting: int = 0) -> Progress:
    progress = Progress(total=100, skipped=skipped)
    progress.note_waiting(waiting, 0)
    return progress


def test_a_parked_record_is_not_done_until_it_is_settled() -> None:
    progress = begun()
    finished(progress, parked(1), of_source=True)
    assert (progress.done, progress.waiting, progress.parked, progress.settled) == (0, 1, 1, 0)
    progress.resumed.add(1)
    assert progress.done == 0
    finished(progress, parked(1), of_source=False)
    assert (progress.done, progress.waiting, progress.parked) == (0, 1, 2)
    progress.resumed.add(1)
    finished(progress, refused(1), of_source=False)
    assert (progress.done, progress.waiting, progress.settled) == (1, 0, 1)


def test_nothing_is_done_before_it_is_known_what_waits() -> None:
    progress = Progress(total=100, skipped=60)
    assert progress.done == 0
    progress.note_waiting(10, 0)
    assert (progress.done, progress.waiting_before) == (50, 10)
    progress.note_waiting(4, 0)
    assert (progress.done, progress.waiting_before) == (56, 10)


def test_an_answer_that_is_older_than_a_park_makes_nothing_done() -> None:
    progress = begun()
    parked_then = progress.parked
    for number in range(40):
        finished(progress, parked(number), of_source=True)
    progress.note_waiting(0, parked_then)
    assert (progress.done, progress.waiting) == (0, 40)
    progress.note_waiting(40, progress.parked)
    assert progress.done == 0


def test_a_lost_lease_settles_nothing() -> None:
    progress = begun(skipped=1, waiting=1)
    progress.resumed.add(1)
    progress.count_finish(refused(1), Finished(FinishOutcome.LEASE_LOST, None))
    assert (progress.done, progress.waiting, progress.lease_lost, progress.settled) == (0, 1, 1, 0)


def test_the_closing_figures_tell_parked_records_from_parks() -> None:
    progress = begun(skipped=3, waiting=2)
    for number in (1, 2):
        progress.resumed.add(number)
    finished(progress, parked(1), of_source=False)
    finished(progress, refused(2), of_source=False)
    finished(progress, parked(9), of_source=True)
    progress.states[TaskState.AUTO_CANDIDATE] += 1
    told = closing_figures(progress, 1.0)
    assert (told["parked_before"], told["still_parked"], told["retries_parked"]) == (2, 2, 2)
    assert told["parks_by_reason"] == {"provider_timeout": 2}
    assert (told["accepted"], told["dead"]) == (1, 1)
