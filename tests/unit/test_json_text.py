"""The strict reader: its two forms agree, and neither is beaten by size or depth."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.domain.json_text import (
    DuplicateKey,
    Json,
    JsonInvalid,
    Number,
    is_deep,
    read_iteratively,
    read_json,
)

Outcome = tuple[str, object]

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)
PIECES = st.sampled_from(
    [
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        '"a"',
        '"b"',
        '"',
        "\\",
        "1",
        "-",
        "0",
        "1e5",
        ".5",
        "true",
        "nul",
        "null",
        " ",
        "\n",
        "\u00a0",
        "NaN",
        "\ufeff",
        '"\\u0061"',
        '"\\ud83d\\ude00"',
        "\x00",
        "٣",
        "Infinity",
        "/*x*/",
    ]
)


def outcome(reader: Callable[[str], Json], text: str) -> Outcome:
    try:
        return "value", typed(reader(text))
    except JsonInvalid:
        return "invalid", None
    except DuplicateKey:
        return "duplicate", None


def typed(value: Json) -> object:
    """The value with its types, so that 1 and "1" differ."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value).__name__, value


@given(st.lists(PIECES, max_size=14).map("".join))
@example('{"a":1,"\\u0061":2}')
@example('{"a":1,"a":2')
@example("[1,]")
@example('{"a":[{"b":1,"b":2}]}x')
def test_the_two_readers_agree_on_anything(text: str) -> None:
    assert outcome(read_json, text) == outcome(read_iteratively, text)


@given(JSON_VALUES, st.sampled_from([None, 1, "\t"]))
def test_the_two_readers_agree_on_json(value: object, indent: int | str | None) -> None:
    text = json.dumps(value, indent=indent)
    kind, read = outcome(read_json, text)
    assert kind == "value"
    assert (kind, read) == outcome(read_iteratively, text)


@given(JSON_VALUES)
def test_what_is_read_is_what_was_written(value: object) -> None:
    assert as_python(read_json(json.dumps(value))) == value


def as_python(value: Json) -> object:
    if isinstance(value, dict):
        return {key: as_python(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_python(item) for item in value]
    return json.loads(value) if isinstance(value, Number) else value


@pytest.mark.parametrize("literal", ["60.30", "1e999", "-0", "9" * 5000, "0.1000", "1E+2"])
def test_numbers_stay_as_written(literal: str) -> None:
    value = read_json(f"[{literal}]")
    assert value == [literal]
    assert isinstance(value, list)
    assert type(value[0]) is Number


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\ufeff1",
        "1 2",
        "{}{}",
        "```json\n{}\n```",
        "NaN",
        "[NaN]",
        "-Infinity",
        "[1,]",
        "01",
        "+1",
        ".5",
        "1.",
        "'a'",
        '"a',
        '"\t"',
        '"\\x"',
        "tru",
        "{1:2}",
        "[",
        "]",
        '{"a" 1}',
        "\u00a01",
        "٣",
        "[1 2]",
        '{"a":1,}',
        "{,}",
        '"\\ud8"',
    ],
)
def test_what_is_not_one_json_value(text: str) -> None:
    assert outcome(read_json, text) == ("invalid", None)
    assert outcome(read_iteratively, text) == ("invalid", None)


def test_a_duplicate_key_is_found_on_decoded_keys_and_after_the_whole_text() -> None:
    with pytest.raises(DuplicateKey) as twice:
        read_json('{"x": [0, {"a": 1, "b": 2, "\\u0061": 3}]}')
    assert twice.value.path == ("x", 1)
    with pytest.raises(JsonInvalid):
        read_json('{"a": 1, "a": 2} trailing')


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"b":'])
def test_depth_of_100_000_is_read(opening: str) -> None:
    depth = 100_000
    closing = "".join("]" if char == "[" else "}" for char in reversed(opening) if char in "[{")
    text = opening * depth + "1" + closing * depth
    value = read_json(text)
    for _ in range(depth):
        for char in opening:
            if char == "[":
                assert isinstance(value, list)
                value = value[0]
            elif char == "{":
                assert isinstance(value, dict)
                (value,) = value.values()
    assert value == "1"


def test_depth_that_is_never_closed_is_invalid() -> None:
    assert outcome(read_json, "[" * 100_000) == ("invalid", None)
    assert outcome(read_json, '{"a":' * 100_000) == ("invalid", None)


def test_brackets_inside_strings_are_no_depth() -> None:
    assert not is_deep(json.dumps("[{" * 5000))
    assert not is_deep(json.dumps(["[", "\\[", '"[']) * 300)
    assert not is_deep("[" + "[],{}," * 5000 + "1]")
    for pair in ("[]", '{"a":}'):
        assert not is_deep(pair[:-1] * 200 + pair[-1] * 200)
        assert is_deep(pair[:-1] * 201 + pair[-1] * 201)
    with pytest.raises(JsonInvalid):
        is_deep("[" * 201 + "]" * 200)


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * 2_000_000,
        "[" * 300 + '"' + '\\"' * 2_000_000,
        "[" + "1," * 1_500_000 + "1]",
        "[" + "[]," * 500_000 + "1]",
        '"' + "a" * 50_000_000 + '"',
        " " * 5_000_000,
        '"' + "\\" * 4_000_001,
        "-" * 4_000_000,
        "9" * 4_000_000,
        "[" * 20_000_000,
    ],
)
def test_time_is_linear(text: str) -> None:
    started = time.process_time()
    with contextlib.suppress(JsonInvalid):
        read_json(text)
    assert time.process_time() - started < 20


@given(st.integers(0, 400))
def test_readers_agree_at_every_depth(depth: int) -> None:
    text = "[" * depth + "0" + "]" * depth
    value, again = read_json(text), read_iteratively(text)
    for _ in range(depth):
        assert isinstance(value, list)
        assert isinstance(again, list)
        value, again = value[0], again[0]
    assert value == again == "0"
