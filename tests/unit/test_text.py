"""Blank and unstorable text, compared with the Unicode tables of the running Python."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from assay.domain.text import BLANK_RANGES, is_blank, is_storable

PREPENDED_MARKS = {
    0x0600,
    0x0601,
    0x0602,
    0x0603,
    0x0604,
    0x0605,
    0x06DD,
    0x0890,
    0x0891,
    0x08E2,
    0x110BD,
    0x110CD,
}


def test_every_separator_control_and_format_character_is_blank() -> None:
    visible = {
        point
        for point in range(sys.maxunicode + 1)
        if unicodedata.category(chr(point)) in {"Zs", "Zl", "Zp", "Cc", "Cf"} and not is_blank(chr(point))
    }
    assert visible == PREPENDED_MARKS


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\t\r\n",
        "\u00a0",
        "\u200b\u200d",
        "\ufeff",
        "\u3164",
        "\uffa0",
        "\u115f\u1160",
        "\u2800",
        "\u034f",
        "\u180b",
        "\ufe0f",
        "\U000e0100",
        "\U000e0041",
        "\U0001d159",
        "\u00ad",
        "\u202e",
        "\u2028",
        "\x00",
        "\x7f",
        "\U00013441",
        "\ufdd0",
        "\U0010ffff",
    ],
)
def test_text_that_shows_nothing_is_blank(text: str) -> None:
    assert is_blank(text)
    assert is_blank(text * 3 + " ")
    assert not is_blank(text + "x" + text)


@pytest.mark.parametrize("text", ["a", ".", "0", "é", "가", "果", "🙂", "\u0301", "؀", "\ue000"])
def test_text_that_shows_something_is_not_blank(text: str) -> None:
    assert not is_blank(text)


def test_letters_digits_and_punctuation_are_never_blank() -> None:
    shown = {"Lu", "Ll", "Lt", "Nd", "Nl", "Pc", "Pd", "Ps", "Pe", "Sc", "Sm"}
    assert not [
        point
        for point in range(sys.maxunicode + 1)
        if unicodedata.category(chr(point)) in shown and is_blank(chr(point))
    ]


def test_ranges_are_ordered_and_apart() -> None:
    flat = [point for pair in sorted(BLANK_RANGES) for point in pair]
    assert flat == sorted(flat)


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "\ud800", "x\udfff", "\ude00\ud83d"])
def test_nul_and_lone_surrogates_are_unstorable(text: str) -> None:
    assert not is_storable(text)


@pytest.mark.parametrize("text", ["", "a", "\x01", "\ufffe", "🙂", "\ufffd"])
def test_other_text_is_storable(text: str) -> None:
    assert is_storable(text)
    text.encode("utf-8")
