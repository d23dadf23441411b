"""Where the reading of a partition begins: the table of everything that may be known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.starts import Known, Start, start_of

OFFSETS = st.integers(0, 30)


@pytest.mark.parametrize(
    ("broker", "ledger", "low", "high", "from_end", "expected"),
    [
        # Nobody knows the group.
        (None, None, 0, 10, False, Start(0, "begin")),
        (None, None, 4, 10, False, Start(4, "begin")),
        (None, None, 4, 10, True, Start(10, "end")),
        (None, None, 0, 0, True, Start(0, "end")),
        # A broker that counts batches cannot say where the end is.
        (None, None, 4, None, True, Start(4, "begin")),
        # The database knows nothing: what the broker calls committed has no destination there.
        (7, None, 0, 10, False, Start(0, "begin")),
        (7, None, 0, 10, True, Start(0, "begin")),
        (7, None, 3, 10, False, Start(3, "begin")),
        # Both know: the lower one.
        (7, 7, 0, 10, False, Start(7, "ledger")),
        (9, 5, 0, 10, False, Start(5, "ledger")),
        (5, 9, 0, 10, False, Start(5, "broker")),
        (5, 9, 0, 10, True, Start(5, "broker")),
        # The broker has forgotten the group.
        (None, 6, 0, 10, False, Start(6, "ledger")),
        (None, 6, 0, 10, True, Start(6, "ledger")),
        # The end itself is no rewritten topic.
        (10, 10, 0, 10, False, Start(10, "ledger")),
        # Beyond the end: another topic of that name.
        (12, 12, 0, 10, False, Start(0, "rewritten")),
        (None, 11, 2, 10, False, Start(2, "rewritten")),
        # One word beyond the end, the other within: the lower one stands.
        (12, 6, 0, 10, False, Start(6, "ledger")),
        (12, 12, 0, None, False, Start(12, "ledger")),
        # The broker no longer has what comes next.
        (3, 3, 8, 10, False, Start(8, "ledger", expired=5)),
        (2, 3, 8, 10, False, Start(8, "broker", expired=6)),
        (None, 8, 8, 10, False, Start(8, "ledger")),
    ],
)
def test_the_table(*, broker: int | None, ledger: int | None, low: int, high: int | None, from_end: bool,
                   expected: Start) -> None:  # fmt: skip
    assert start_of(Known(broker, ledger, low, high), from_end=from_end) == expected


@given(
    broker=st.none() | OFFSETS, ledger=st.none() | OFFSETS, low=OFFSETS, length=st.none() | OFFSETS,
    from_end=st.booleans(),
)  # fmt: skip
def test_nothing_is_passed_over(
    broker: int | None, ledger: int | None, low: int, length: int | None, from_end: bool
) -> None:
    high = None if length is None else low + length
    start = start_of(Known(broker, ledger, low, high), from_end=from_end)
    assert start.offset >= low
    assert start.expired >= 0
    if high is not None:
        assert start.offset <= high
    # What both call done, and nothing else, is left out; a new group may leave out all there was before it.
    done = 0 if ledger is None else ledger if broker is None else min(ledger, broker)
    if start.reason != "end":
        assert start.offset - start.expired <= max(done, low)
        assert start.expired == 0 or start.offset == low
    else:
        assert from_end
        assert broker is ledger is None
