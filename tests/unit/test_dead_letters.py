"""What dead letters have in common, and when one can be replayed."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.dead_letters import (
    Bar,
    LetterState,
    ReplayFacts,
    fields_of,
    fingerprint,
    folded,
    may_help,
    replay_answer,
)
from assay.domain.failure_table import FAILURE_TABLE, FailureClass

ERRORS = (("/items/0/amount", "float_type"), ("/total", "missing"), ("/items/7/amount", "float_type"))


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("", ""), ("/total", "/total"), ("/items/0/amount", "/items/*/amount"), ("/0/1/2", "/*/*/*"),
        ("/items/12", "/items/*"), ("/line1/2b", "/line1/2b"), ("/items/*/1", "/items/*/*"),
        ("/items/٣", "/items/٣"), ("/a/1\n", "/a/1\n"),
    ],
)  # fmt: skip
def test_array_indices_are_folded(path: str, told: str) -> None:
    assert folded(path) == told


def test_fields_are_told_once_in_their_order() -> None:
    assert fields_of(ERRORS) == ("/items/*/amount", "/total")
    assert fields_of(()) == ()


def test_a_fingerprint_is_of_the_set_of_errors() -> None:
    prints = {fingerprint("schema_type_error", "malformed", each) for each in permutations(ERRORS)}
    assert prints == {fingerprint("schema_type_error", "malformed", ERRORS[:2])}
    (one,) = prints
    assert len(one) == 16
    assert set(one) <= set("0123456789abcdef")


def test_what_fails_otherwise_has_another_fingerprint() -> None:
    prints = {
        fingerprint("a", None, ()), fingerprint("a", "malformed", ()), fingerprint("b", None, ()),
        fingerprint("a", None, (("", "x"),)), fingerprint("a", None, (("/x", ""),)),
        fingerprint("a", None, (("", "x"), ("/x", ""))),
    }  # fmt: skip
    assert len(prints) == 6


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=8)), max_size=5), st.randoms())
def test_order_and_repetition_make_no_difference(errors: list[tuple[str, str]], chance: object) -> None:
    storable = [(path.encode("utf-8", "replace").decode(), type_.encode("utf-8", "replace").decode())
                for path, type_ in errors]  # fmt: skip
    assert fingerprint("c", "k", storable) == fingerprint("c", "k", [*reversed(storable), *storable])


def facts(state: LetterState = LetterState.OPEN, **changed: object) -> ReplayFacts:
    known: dict[str, object] = {
        "task_state": "quarantined", "code": "json_invalid", "failure_class": "contract", "readable": True,
        "newer_input": None,
    }  # fmt: skip
    known |= changed
    newer = known["newer_input"]
    return ReplayFacts(
        state, str(known["task_state"]), str(known["code"]), str(known["failure_class"]),
        known["readable"] is True, newer if isinstance(newer, int) else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("known", "bars"),
    [
        (facts(), ()),
        (facts(LetterState.ASSIGNED), ()),
        (facts(readable=False), (Bar.TEXT_GONE,)),
        (facts(task_state="erased", readable=False), (Bar.ERASED,)),
        (facts(LetterState.REPLAYING, task_state="processing"), (Bar.BEING_REPLAYED,)),
        (
            facts(LetterState.RESOLVED, task_state="superseded", newer_input=2),
            (Bar.RESOLVED, Bar.NEWER_INPUT),
        ),
        (facts(LetterState.CLOSED, task_state="rejected"), (Bar.CLOSED,)),
        (facts(task_state="review_pending"), (Bar.SETTLED,)),
        (facts(newer_input=3), (Bar.NEWER_INPUT,)),
    ],
)
def test_what_stands_in_the_way_of_a_replay(known: ReplayFacts, bars: tuple[Bar, ...]) -> None:
    answer = replay_answer(known)
    assert (answer.safe, answer.bars) == (not bars, bars)
    assert answer.fixes


def test_the_same_call_helps_where_the_vendor_was_at_fault_or_the_answer_was_cut() -> None:
    assert may_help("attempts_exhausted", FailureClass.TRANSIENT)
    assert may_help("response_truncated", FailureClass.CONTRACT)
    assert not may_help("json_invalid", FailureClass.CONTRACT)
    assert not may_help("provider_refused", FailureClass.POLICY)
    assert not may_help("a_code_of_a_later_release", FailureClass.POLICY)


def test_every_class_has_fixes_that_fit() -> None:
    for rule in FAILURE_TABLE.values():
        assert replay_answer(facts(code=rule.code, failure_class=rule.failure_class.value)).fixes
