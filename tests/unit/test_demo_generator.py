"""The demo tickets: the same for the same seed, varied, unique, storable."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

from assay.demo.generator import CATEGORIES, INSUFFICIENT_EVIDENCE, DemoTicket, generate, write_jsonl
from assay.demo.texts import LANGUAGES

COUNT = 3000
# Of the 3,000 texts of seed 0. It changes only when words or draws are changed on purpose.
KNOWN_SHA256 = "5f9a2a193ea5762106b17dfa2e976b570a4388e3df7709e1001fcce01bed6a32"


@pytest.fixture(scope="module")
def tickets() -> list[DemoTicket]:
    return list(generate(COUNT, seed=0))


def test_same_seed_same_bytes_everywhere(tickets: list[DemoTicket]) -> None:
    texts = "".join(ticket.text for ticket in tickets)
    assert hashlib.sha256(texts.encode()).hexdigest() == KNOWN_SHA256
    assert list(generate(COUNT, seed=0)) == tickets


def test_fewer_tickets_are_the_first_ones(tickets: list[DemoTicket]) -> None:
    assert list(generate(200, seed=0)) == tickets[:200]


def test_another_seed_writes_other_tickets(tickets: list[DemoTicket]) -> None:
    others = {ticket.text for ticket in generate(COUNT, seed=1)}
    assert len(others & {ticket.text for ticket in tickets}) < COUNT / 10


def test_texts_and_ids_are_unique(tickets: list[DemoTicket]) -> None:
    assert len({ticket.text for ticket in tickets}) == COUNT
    assert len({ticket.id for ticket in tickets}) == COUNT


def test_languages_come_in_their_shares(tickets: list[DemoTicket]) -> None:
    seen = Counter(ticket.language for ticket in tickets)
    assert sum(share for _, share in LANGUAGES) == 100
    assert len(seen) == len(LANGUAGES) >= 8
    for language, share in LANGUAGES:
        assert abs(seen[language.code] / COUNT - share / 100) < 0.03


def test_classes_are_balanced_sanely(tickets: list[DemoTicket]) -> None:
    seen = Counter(ticket.category for ticket in tickets)
    assert set(seen) == set(CATEGORIES)
    assert 0.03 * COUNT < seen[INSUFFICIENT_EVIDENCE] < 0.09 * COUNT
    assert max(seen.values()) < 0.35 * COUNT
    per_language = {(ticket.language, ticket.category) for ticket in tickets}
    assert len(per_language) == len(LANGUAGES) * len(CATEGORIES)


def test_every_text_can_be_stored_and_shows_something(tickets: list[DemoTicket]) -> None:
    for ticket in tickets:
        assert "\x00" not in ticket.text
        assert ticket.text.encode("utf-8")  # a lone surrogate would raise
        assert any(letter.isalnum() for letter in ticket.text)
        assert "{order}" not in ticket.text
        assert "{amount}" not in ticket.text


def test_there_is_variety(tickets: list[DemoTicket]) -> None:
    texts = [ticket.text for ticket in tickets]
    assert sum("\n\n" in text for text in texts) > 500
    assert sum("\n> " in text for text in texts) > 100
    assert sum("\r\n" in text for text in texts) > 10
    assert any("\u2028" in text or "\u200b" in text or "\u202e" in text for text in texts)
    assert sum(len(text) > 4000 for text in texts) >= 3
    assert sum(len(text) < 60 for text in texts) > 50
    assert any("Ignore all previous instructions" in text for text in texts)
    assert len({ticket.customer for ticket in tickets}) > 200


def test_near_duplicates_keep_their_gold(tickets: list[DemoTicket]) -> None:
    by_text = {ticket.text: ticket for ticket in tickets}
    pairs = [(ticket, by_text[ticket.text[4:]]) for ticket in tickets if ticket.text[4:] in by_text]
    assert pairs
    assert all(copy.category == original.category for copy, original in pairs)


def test_the_file_holds_the_tickets_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "tickets.jsonl"
    write_jsonl(path, 50, seed=3)
    rows = [DemoTicket(**json.loads(line)) for line in path.read_bytes().decode().split("\n")[:-1]]
    assert rows == list(generate(50, seed=3))
    first = path.read_bytes()
    write_jsonl(path, 50, seed=3)
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tickets.jsonl"
    write_jsonl(path, 5, seed=3)
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", _disk_full)
    with pytest.raises(OSError, match="full"):
        write_jsonl(path, 6, seed=3)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def _disk_full(handle: int) -> None:
    raise OSError("the disk is full")
