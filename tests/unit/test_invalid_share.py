"""The share of malformed input: over the last items, and over all of a file."""

from __future__ import annotations

from collections import Counter, deque

from hypothesis import given
from hypothesis import strategies as st

from assay.pipeline.invalid_share import LEAST, LEAST_AT_THE_END, InvalidShare, MostlyInvalid

TYPES = st.sampled_from([None, None, "not_json", "missing_field"])
ITEMS = st.lists(st.tuples(TYPES, st.integers(1, 120)), max_size=12).map(
    lambda runs: [each for each, times in runs for _ in range(times)]
)


def expected(items: list[str | None], share: float, window: int, *, whole: bool) -> MostlyInvalid | None:
    """Counted anew after each item: the first time that it is too much."""
    least = min(LEAST, window)
    for end in range(1, len(items) + 1):
        for seen in (items[max(end - window, 0) : end], items[:end] if whole else []):
            types = Counter(each for each in seen if each is not None)
            if items[end - 1] is not None and len(seen) >= least and types.total() > len(seen) * share:
                error_type, count = max(types.items(), key=lambda each: (each[1], each[0]))
                return MostlyInvalid(types.total(), len(seen), error_type, count)
    return None


@given(ITEMS, st.sampled_from([0.0, 0.25, 0.5, 0.9]), st.integers(1, 300), st.booleans(), st.data())
def test_it_is_what_counting_anew_finds(
    items: list[str | None], share: float, window: int, whole: bool, data: st.DataObject
) -> None:
    tried = InvalidShare(share, window=window, whole=whole)
    rest = deque(items)
    while rest:  # batches do not matter
        batch = [rest.popleft() for _ in range(min(len(rest), data.draw(st.integers(1, 400))))]
        tried.note(batch)
    assert tried.found == expected(items, share, window, whole=whole)


def test_a_stream_that_turns_invalid_after_a_million_is_stopped_within_its_window() -> None:
    stream, file = (InvalidShare(0.5, window=1000, whole=whole) for whole in (False, True))
    for tried in (stream, file):
        tried.note([None] * 1_000_000)
        tried.note(["not_json"] * 500)
        assert tried.found is None
        tried.note(["not_json"])
        assert tried.found == MostlyInvalid(501, 1000, "not_json", 501)


def test_a_file_keeps_its_rule_over_all_of_it() -> None:
    items = ["bad_row"] * 60 + [None] * 60 + ["bad_row"]
    file, stream = (InvalidShare(0.5, window=100, whole=whole) for whole in (True, False))
    for tried in (file, stream):
        tried.note(items)
    assert file.found == MostlyInvalid(61, 121, "bad_row", 61)
    assert stream.found is None


def test_a_bad_stretch_that_is_shorter_than_half_a_window_stops_nothing() -> None:
    tried = InvalidShare(0.5, window=1000, whole=True)
    tried.note([None] * 2000 + ["bad_row"] * 400 + [None] * 2000)
    assert tried.found is None


def test_a_short_source_is_judged_at_its_end() -> None:
    tried = InvalidShare(0.5, window=1000, whole=True)
    tried.note(["not_json"] * LEAST_AT_THE_END)
    assert tried.found is None
    tried.end()
    assert tried.found == MostlyInvalid(10, 10, "not_json", 10)


def test_a_few_items_say_nothing() -> None:
    tried = InvalidShare(0.5, window=1000, whole=True)
    tried.note(["not_json"] * (LEAST_AT_THE_END - 1))
    tried.end()
    assert tried.found is None
