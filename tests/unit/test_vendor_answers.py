"""What the practice vendor says, in which shape, and with which faults."""

from __future__ import annotations

import json
from statistics import mean

import pytest

from assay.vendor.answers import Answer, Answers
from assay.vendor.chance import Draws, digest
from assay.vendor.faults import PROSE_PREFIXES, draw_fault, say
from assay.vendor.gold import Gold, JsonObject
from assay.vendor.lookup import Match
from assay.vendor.schema import allowed_labels, shape
from assay.vendor.settings import FaultShares

LABELS = ("billing", "other", "technical")
TEXTS = {f"text {number}": LABELS[number % 3] for number in range(3000)}
ANSWER = Answer("billing", {}, 0.91, "because", wrong=False)


def _ask(answers: Answers, text: str, how: str = "exact", allowed: list[str] | None = None) -> Answer:
    match = Match(text, "unknown") if how == "unknown" else Match(text, "exact")
    return answers.about(match, digest(text), "m", allowed)


def test_errors_at_the_rate_with_lower_but_overlapping_confidence() -> None:
    answers = Answers(Gold(dict(TEXTS), LABELS, ()), seed=4, error_rate=0.2)
    given = {text: _ask(answers, text) for text in TEXTS}
    wrong = [answer for text, answer in given.items() if answer.label != TEXTS[text]]
    right = [answer for text, answer in given.items() if answer.label == TEXTS[text]]
    assert all(answer.wrong for answer in wrong)
    assert not any(answer.wrong for answer in right)
    assert 500 < len(wrong) < 700  # 600 ± 4.5 standard deviations
    assert mean(a.confidence for a in right) > mean(a.confidence for a in wrong) + 0.15
    assert max(a.confidence for a in wrong) > 0.9
    assert min(a.confidence for a in right) < 0.65
    sure = [answer for answer in given.values() if answer.confidence >= 0.85]
    assert sum(answer.wrong for answer in sure) / len(sure) < len(wrong) / len(given) / 2


def test_no_errors_at_rate_zero_and_only_errors_at_one() -> None:
    gold = Gold(dict(TEXTS), LABELS, ())
    assert all(_ask(Answers(gold, 0, 0.0), text).label == label for text, label in TEXTS.items())
    assert all(_ask(Answers(gold, 0, 1.0), text).label != label for text, label in TEXTS.items())


def test_a_text_keeps_its_answer() -> None:
    answers = Answers(Gold(dict(TEXTS), LABELS, ()), seed=4, error_rate=0.2)
    assert _ask(answers, "text 7") == _ask(answers, "text 7")


def test_a_single_label_cannot_be_answered_wrongly() -> None:
    answer = _ask(Answers(Gold({"a": "x"}, ("x",), ()), 0, 1.0), "a")
    assert answer.label == "x"
    assert not answer.wrong


def test_wrong_objects_take_one_field_from_another_record() -> None:
    objects: list[JsonObject] = [{"company": f"c{n}", "total": f"{n}.00", "land": "x"} for n in range(50)]
    gold = Gold({str(n): one for n, one in enumerate(objects)}, (), tuple(objects))
    for number, right in enumerate(objects):
        answer = _ask(Answers(gold, 0, 1.0), str(number))
        assert answer.wrong
        assert answer.label is None
        assert sum(answer.extracted[name] != right[name] for name in right) == 1
        assert answer.extracted["land"] == "x"


def test_an_unknown_text_gets_the_general_label_and_little_confidence() -> None:
    answers = Answers(Gold(dict(TEXTS), LABELS, ()), 0, 0.5)
    guess = _ask(answers, "never seen", "unknown")
    assert guess.label == "other"
    assert guess.confidence <= 0.35
    assert _ask(answers, "never seen", "unknown", ["b", "a"]).label == "b"
    objects: JsonObject = {"total": "1.00"}
    blank = _ask(Answers(Gold({"a": objects}, (), (objects,)), 0, 0.0), "never seen", "unknown")
    assert blank.extracted == {"total": None}


def test_without_a_schema_label_confidence_reason_or_the_chosen_fields() -> None:
    assert list(shape(ANSWER, "kind", None, None)) == ["kind", "confidence", "reason"]
    assert shape(ANSWER, "kind", None, ("confidence", "kind", "x")) == {"confidence": 0.91, "kind": "billing"}
    extracted = Answer(None, {"total": "1"}, 0.9, "read", wrong=False)
    assert shape(extracted, "kind", None, None) == {"total": "1"}


def test_the_schema_says_which_fields_and_in_which_order() -> None:
    schema: JsonObject = {
        "$defs": {"Kind": {"enum": ["billing", "other"]}, "Item": {"type": "object", "required": ["n"]}},
        "properties": {
            "rationale": {"type": "string"},
            "topic": {"$ref": "#/$defs/Kind"},
            "confidence": {"type": "number"},
            "sure": {"type": "boolean"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Item"}, "minItems": 1},
            "count": {"type": "integer", "minimum": 2},
            "optional": {"type": "string"},
        },
        "required": ["rationale", "topic", "confidence", "sure", "note", "lines", "count"],
    }
    assert list(shape(ANSWER, "category", schema, None).items()) == [
        ("rationale", "because"),
        ("topic", "billing"),
        ("confidence", 0.91),
        ("sure", False),
        ("note", None),
        ("lines", [{"n": None}]),
        ("count", 2),
    ]
    assert allowed_labels(schema, "category") == ["billing", "other"]
    assert allowed_labels(schema, "topic") == ["billing", "other"]
    assert allowed_labels(schema, "sure") is None


def test_extracted_fields_are_cut_to_the_schema() -> None:
    schema: JsonObject = {
        "properties": {"total": {}, "confidence": {}, "day": {"type": "string"}},
        "required": ["day"],
    }
    extracted = Answer(None, {"company": "c", "total": "1.00"}, 0.9, "read", wrong=False)
    shaped = shape(extracted, "category", schema, None)
    assert shaped == {"total": "1.00", "confidence": 0.9, "day": "not stated"}


@pytest.mark.parametrize("schema", [{}, {"properties": 5}, {"$ref": "#"}, {"$ref": "#/$defs/x"}])
def test_odd_schemas_do_no_harm(schema: JsonObject) -> None:
    assert shape(ANSWER, "category", schema, None)["category"] == "billing"


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    assert "a" in shape(ANSWER, "category", schema, None)


def test_each_fault_spoils_the_answer_in_its_way() -> None:
    answer: JsonObject = {"category": "billing", "confidence": 0.9, "reason": "so"}
    for number in range(200):
        draws = Draws(number, b"", "faults")
        prose = say(answer, "prose_prefix", draws)
        prefix = next(known for known in PROSE_PREFIXES if prose.content.startswith(known))
        assert json.loads(prose.content.removeprefix(prefix)) == answer
        assert isinstance(json.loads(say(answer, "string_confidence", draws).content)["confidence"], str)
        assert len(json.loads(say(answer, "extra_field", draws).content)) == 4
        cut = say(answer, "truncation", draws)
        assert cut.finish_reason == "length"
        assert 0 < len(cut.content) < len(json.dumps(answer))
        plain = say(answer, None, draws)
        assert (json.loads(plain.content), plain.finish_reason, plain.fault) == (answer, "stop", None)
    assert "以下是结果：" in PROSE_PREFIXES


def test_a_fault_that_cannot_be_is_not_claimed() -> None:
    said = say({"total": "1.00"}, "string_confidence", Draws(0, b"", "x"))
    assert said.fault is None
    assert json.loads(said.content) == {"total": "1.00"}


def test_faults_exclude_each_other_and_keep_their_shares() -> None:
    shares = FaultShares(rate_limited=0.1, extra_field=0.3, truncation=0.6)
    drawn = [draw_fault(shares, Draws(0, b"", "share", turn)) for turn in range(10_000)]
    for name, share in shares.items():
        assert abs(drawn.count(name) / 10_000 - share) < 0.025
    assert draw_fault(FaultShares(), Draws(0, b"", "none")) is None
