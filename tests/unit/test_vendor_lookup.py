"""Which known text a message holds; draws; bounded counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.vendor.chance import Draws, digest
from assay.vendor.lookup import STEM, Match, TextIndex
from assay.vendor.seen_keys import SeenKeys


def test_the_whole_message_comes_first() -> None:
    index = TextIndex(["my parcel is late", "Q: my parcel is late"])
    assert index.find("Q: my parcel is late") == Match("Q: my parcel is late", "exact")


def test_the_longest_text_inside_wins() -> None:
    index = TextIndex(["my parcel is late", "my parcel is late again", "parcel is late again and again"])
    assert index.find("<t>my parcel is late again</t>").text == "my parcel is late again"
    assert index.find("<t>my parcel is late again and again</t>").text == "parcel is late again and again"


def test_short_texts_must_stand_alone() -> None:
    index = TextIndex(["ok", "", "   "])
    assert index.find("<ticket>\nok\n</ticket>") == Match("ok", "contained")
    assert index.find('say "ok"').how == "contained"
    assert index.find("the token is broken").how == "unknown"
    assert index.find("").how == "exact"


def test_an_unknown_message_is_its_own_text() -> None:
    assert TextIndex(["something known here"]).find("else") == Match("else", "unknown")


texts = st.text(alphabet="ab ", min_size=STEM, max_size=STEM + 8)


@given(st.lists(texts, min_size=1, max_size=12), st.text(alphabet="ab ", max_size=60))
def test_finds_what_a_plain_search_finds(known: list[str], message: str) -> None:
    inside = [text for text in known if text in message]
    match = TextIndex(known).find(message)
    assert (match.how == "unknown") == (not inside)
    if inside:
        assert len(match.text) == max(len(text) for text in inside)
        assert match.text in inside


def test_ten_thousand_texts_that_begin_alike() -> None:
    known = [f"Dear support team, my order number is {number:06} and more" for number in range(10_000)]
    index = TextIndex(known)
    assert index.find(f"Classify this.\n\n{known[7_654]}\n\nJSON only.").text == known[7_654]


def test_draws_depend_on_everything_they_are_made_from() -> None:
    def first(*made_from: int | str) -> float:
        seed, text, purpose, turn = made_from
        return Draws(int(seed), digest(str(text)), str(purpose), int(turn)).unit()

    plain = first(1, "text", "call", 0)
    assert plain == first(1, "text", "call", 0)
    others = {
        first(2, "text", "call", 0),
        first(1, "t", "call", 0),
        first(1, "text", "x", 0),
        first(1, "text", "call", 1),
    }
    assert len(others | {plain}) == 5


def test_draws_are_even() -> None:
    draws = Draws(0, b"", "even")
    units = [draws.unit() for _ in range(20_000)]
    assert all(0.0 <= unit < 1.0 for unit in units)
    assert abs(sum(units) / len(units) - 0.5) < 0.01
    assert len(set(units)) == len(units)
    assert {draws.below(3) for _ in range(100)} == {0, 1, 2}


def test_a_lone_surrogate_has_a_digest() -> None:
    assert digest("\ud800") != digest("\ud801")


def test_counts_are_exact_below_half_the_bound_and_memory_stays_bounded() -> None:
    seen = SeenKeys(1000)
    for turn in range(3):
        assert [seen.add(b"%d" % number) for number in range(400)] == [turn] * 400
    for number in range(100_000):
        seen.add(b"other %d" % number)
    assert seen.count(b"other 99999") == 1
    assert seen.count(b"1") == 0
    assert len(seen._new) + len(seen._old) <= 1000
