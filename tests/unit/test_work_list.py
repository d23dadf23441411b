"""Pages of the work list: nothing is passed over, nothing comes twice, low priority in its turn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.adapters.postgres.work_list import Candidate, Page, first_page

Key = tuple[str, int]


def _bound(value: tuple[object, int]) -> Key:
    shown = {"-infinity": "", "infinity": "z"}
    return shown.get(str(value[0]), str(value[0])), value[1]


def _look(page: Page, rows: dict[Key, bool]) -> list[Candidate]:
    """What the query answers: by rank, behind the page's keys, as many as fit."""
    found = [
        (low is not page.low_first, key)
        for key, low in rows.items()
        if key > _bound(page.low_after if low else page.after)
    ]
    return [(key[1], key[0], None, rank is not page.low_first) for rank, key in sorted(found)[: page.most]]


@given(
    st.dictionaries(st.tuples(st.sampled_from("abc"), st.integers(1, 40)), st.booleans(), max_size=40),
    st.integers(1, 8),
    st.integers(1, 7),
)
def test_pages_go_once_over_the_whole_list(rows: dict[Key, bool], look: int, most: int) -> None:
    page: Page | None = first_page(look, most, most, 1)
    low_first = look == 8
    seen: list[tuple[bool, Key]] = []
    while page is not None:
        found = _look(page, rows)
        seen += [(low is not low_first, (str(due), task)) for task, due, _, low in found]
        page = page.following(found)
    assert seen == sorted((low is not low_first, key) for key, low in rows.items())


def test_every_eighth_look_begins_with_low_priority() -> None:
    assert [look for look in range(1, 25) if first_page(look, 1, 1, 1).low_first] == [8, 16, 24]


def test_what_a_dead_worker_left_leads_to_no_further_page() -> None:
    assert first_page(1, 1, 1, 1).following([(7, None, 3, None)]) is None
