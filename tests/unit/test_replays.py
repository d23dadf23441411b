"""The order of a replay: one, a sample, the rest; and when it stops."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.failures import ConfigurationError
from assay.domain.replays import Counts, FixKind, Next, Stage, Step, check_fix, next_step, stage_of


def step(counts: Counts, *, sample: int = 5, stop_loss: float = 0.5, page: int = 10) -> Next:
    return next_step(counts, sample=sample, stop_loss=stop_loss, page=page)


def test_one_then_the_sample_then_pages() -> None:
    assert step(Counts(waiting=100)) == Next(Step.RELEASE, 1)
    assert step(Counts(waiting=99, released=1)) == Next(Step.WAIT)
    assert step(Counts(waiting=99, succeeded=1)) == Next(Step.RELEASE, 4)
    assert step(Counts(waiting=95, succeeded=3, released=2)) == Next(Step.WAIT)
    assert step(Counts(waiting=95, succeeded=5)) == Next(Step.RELEASE, 10)
    assert step(Counts(waiting=85, succeeded=8, released=7)) == Next(Step.RELEASE, 3)
    assert step(Counts(released=7, succeeded=93)) == Next(Step.WAIT)
    assert step(Counts(succeeded=100)) == Next(Step.FINISH)


def test_a_first_failure_alone_stops_nothing_and_a_bad_sample_does() -> None:
    assert step(Counts(waiting=99, failed=1)) == Next(Step.RELEASE, 4)
    assert step(Counts(waiting=95, failed=3, succeeded=2)) == Next(Step.STOP)
    assert step(Counts(waiting=95, failed=2, succeeded=3)) == Next(Step.RELEASE, 10)


def test_a_replay_that_turns_bad_later_stops_once_what_is_out_has_settled() -> None:
    assert step(Counts(waiting=50, failed=40, succeeded=8, released=2)) == Next(Step.WAIT)
    assert step(Counts(waiting=50, failed=40, succeeded=10)) == Next(Step.STOP)


def test_what_was_overtaken_tells_nothing_of_the_fix() -> None:
    assert step(Counts(waiting=9, overtaken=1)) == Next(Step.RELEASE, 4)
    assert step(Counts(waiting=9, overtaken=5)) == Next(Step.RELEASE, 9)


@given(
    items=st.integers(1, 300), sample=st.integers(1, 50), page=st.integers(1, 60), bad=st.floats(0, 1),
    stop_loss=st.floats(0, 1), seed=st.integers(0, 1000),
)  # fmt: skip
def test_it_always_ends_and_risks_no_more_than_the_sample(
    *, items: int, sample: int, page: int, bad: float, stop_loss: float, seed: int
) -> None:
    chance = random.Random(seed)
    waiting, released, succeeded, failed = items, 0, 0, 0
    for _ in range(items * 6 + 10):
        counts = Counts(waiting=waiting, released=released, succeeded=succeeded, failed=failed)
        following = next_step(counts, sample=sample, stop_loss=stop_loss, page=page)
        match following.step:
            case Step.RELEASE:
                assert 1 <= following.items <= waiting
                waiting -= following.items
                released += following.items
                assert released <= page or released + succeeded + failed <= sample
                if succeeded + failed == 0:
                    assert released == 1
                elif succeeded + failed < sample:
                    assert released + succeeded + failed <= sample
                else:
                    assert failed <= stop_loss * (succeeded + failed)
            case Step.WAIT:
                assert released > 0
                some = chance.randint(1, released)
                for _ in range(some):
                    if chance.random() < bad:
                        failed += 1
                    else:
                        succeeded += 1
                released -= some
            case Step.STOP:
                assert failed > stop_loss * (succeeded + failed)
                assert succeeded + failed >= sample
                assert released == 0
                return
            case Step.FINISH:
                assert waiting == released == 0
                return
    pytest.fail("it does not end")


def test_only_a_changed_contract_can_do_with_kept_responses() -> None:
    assert stage_of(FixKind.NEW_SCHEMA, kept=True) is Stage.VALIDATE
    assert stage_of(FixKind.NEW_SCHEMA, kept=False) is Stage.CALL
    others = set(FixKind) - {FixKind.NEW_SCHEMA}
    assert {stage_of(kind, kept=True) for kind in others} == {Stage.CALL}


def test_a_fix_names_the_versions_that_its_kind_needs() -> None:
    check_fix(FixKind.NEW_SCHEMA, 1, 2)
    check_fix(FixKind.APPROVAL, 1, None)
    with pytest.raises(ConfigurationError, match="--to VERSION"):
        check_fix(FixKind.NEW_MODEL, 1, None)
    with pytest.raises(ConfigurationError, match="nothing has changed"):
        check_fix(FixKind.NEW_MODEL, 1, 1)
    with pytest.raises(ConfigurationError, match="earlier version"):
        check_fix(FixKind.NEW_SCHEMA, 2, 1)
    with pytest.raises(ConfigurationError, match="leave --to out"):
        check_fix(FixKind.DEPENDENCY_RESTORED, 1, 2)
