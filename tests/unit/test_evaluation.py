"""Published values, counted errors and both conventions for quotients without value."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.evaluation import ConfusionCell, Evaluation, evaluate

SHARED = Path(
    os.environ.get("ASSAY_SHARED_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data")
)
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="real inputs are not here: set ASSAY_SHARED_DATA"
)
MODELS = (
    "gpt_4o_prediction",
    "gpt_4o_mini_prediction",
    "claude_3.5_sonnet_prediction",
    "claude_3.5_haiku_prediction",
)


def shared_evaluation(split: int, model: str) -> Evaluation:
    path = SHARED / "tickets" / f"ecommerce_llm_split_{split}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return evaluate((row["category"], row[model]) for row in csv.DictReader(file))


@needs_shared
@pytest.mark.parametrize("split", [1, 2])
@pytest.mark.parametrize("model", MODELS)
def test_the_published_table_comes_out(split: int, model: str) -> None:
    published = json.loads((SHARED / "tickets" / "ecommerce_llm_published_metrics.json").read_text("utf-8"))
    expected = next(row for row in published[f"dataset_split_{split}.csv"] if row["Model"] == model)
    result = shared_evaluation(split, model)
    averages = result.weighted.undefined_as_1
    assert result.accuracy is not None
    assert averages.precision is not None
    assert averages.recall is not None
    assert averages.mean_f1 is not None
    assert {
        "Model": model,
        "Accuracy": round(result.accuracy, 4),
        "Precision": round(averages.precision, 4),
        "Recall": round(averages.recall, 4),
        "F1": round(averages.mean_f1, 4),
    } == expected


@needs_shared
def test_the_other_convention_would_not_give_the_published_precision() -> None:
    result = shared_evaluation(1, "gpt_4o_mini_prediction")
    assert len(result.undefined) == 1
    assert result.weighted.undefined_as_0.precision != pytest.approx(0.7007, abs=5e-5)
    assert result.weighted.undefined_as_0.mean_f1 == result.weighted.undefined_as_1.mean_f1


@needs_shared
def test_answers_outside_the_label_set_are_counted_and_wrong() -> None:
    result = shared_evaluation(1, "gpt_4o_prediction")
    assert sum(result.outside.values()) >= 1
    assert not set(result.outside) & set(result.labels)
    assert result.pairs == 620
    assert result.weighted.undefined_as_0.recall == pytest.approx(result.accuracy, abs=1e-15)


def check_value(identity: str) -> dict[str, dict[str, object]]:
    rows = json.loads((SHARED / "agreement" / "check_values_one_per_metric.json").read_text("utf-8"))
    found: dict[str, dict[str, object]] = next(row for row in rows if row["id"] == identity)
    return found


def checked_pairs(given_value: dict[str, object]) -> list[tuple[str, str | None]]:
    gold, predicted = given_value["y_true"], given_value["y_pred"]
    assert isinstance(gold, list)
    assert isinstance(predicted, list)
    return [(str(g), str(p)) for g, p in zip(gold, predicted, strict=True)]


@needs_shared
def test_the_check_values_for_f1() -> None:
    value = check_value("cv081")
    result = evaluate(checked_pairs(value["input"]))
    expected = value["expected"]
    assert result.macro.undefined_as_0.mean_f1 == pytest.approx(expected["macro_f1"], abs=1e-9)
    assert result.weighted.undefined_as_0.mean_f1 == pytest.approx(expected["weighted_f1"], abs=1e-9)
    assert result.accuracy == pytest.approx(expected["micro_f1"], abs=1e-9)
    assert [score.f1 for score in result.classes] == expected["per_class"]


@needs_shared
def test_the_check_values_for_precision_and_recall() -> None:
    value = check_value("cv082")
    averages = evaluate(checked_pairs(value["input"])).macro.undefined_as_0
    expected = value["expected"]
    assert averages.precision == pytest.approx(expected["precision"], abs=1e-9)
    assert averages.recall == pytest.approx(expected["recall"], abs=1e-9)
    assert averages.mean_f1 == pytest.approx(expected["f1"], abs=1e-9)


def test_macro_f1_is_the_mean_of_the_f1_scores() -> None:
    gold = "0" * 8 + "1" * 2 + "2" * 2
    predicted = "0" * 4 + "1" * 4 + "1" * 2 + "20"
    averages = evaluate(zip(gold, predicted, strict=True)).macro.undefined_as_0
    assert averages.mean_f1 == pytest.approx(0.5940, abs=5e-5)
    # The other definition, on the same data, so that the two cannot be confused.
    assert averages.precision is not None
    assert averages.recall is not None
    harmonic = 2 * averages.precision * averages.recall / (averages.precision + averages.recall)
    assert harmonic == pytest.approx(0.6882, abs=5e-5)


def test_missing_and_outside_answers_are_wrong_and_counted_apart() -> None:
    pairs = [("a", "a"), ("a", None), ("a", "z"), ("b", "b")]
    result = evaluate(pairs, ["a", "b", "c"])
    assert (result.pairs, result.correct, result.accuracy) == (4, 2, 0.5)
    assert result.missing == 1
    assert result.outside == {"z": 1}
    assert result.gold_outside == {}
    a, b, c = result.classes
    assert (a.support, a.predicted, a.precision, a.recall, a.f1) == (3, 1, 1.0, 1 / 3, 0.5)
    assert (b.precision, b.recall, b.f1) == (1.0, 1.0, 1.0)
    assert (c.precision, c.recall, c.f1) == (None, None, None)
    assert result.undefined == ("c",)
    assert result.macro.undefined_as_0.precision == pytest.approx(2 / 3)
    assert result.macro.undefined_as_1.precision == 1.0


def test_a_prediction_outside_a_stated_label_set_is_wrong_even_where_gold_says_the_same() -> None:
    result = evaluate([("z", "z"), ("a", "a")], ["a"])
    assert result.accuracy == 0.5
    assert result.outside == {"z": 1}
    assert result.gold_outside == {"z": 1}


def test_never_predicted_class_has_f1_zero_in_both_conventions() -> None:
    result = evaluate([("a", "a"), ("b", "a")])
    b = result.classes[1]
    assert (b.precision, b.recall, b.f1) == (None, 0.0, 0.0)
    assert result.weighted.undefined_as_0.precision == 0.25
    assert result.weighted.undefined_as_1.precision == 0.75
    assert result.weighted.undefined_as_0.mean_f1 == result.weighted.undefined_as_1.mean_f1


def test_the_label_set_is_stated_in_order_and_confusion_is_complete() -> None:
    result = evaluate([("b", "a"), ("b", "a"), ("a", None)], ["b", "a", "b"])
    assert result.labels == ("b", "a")
    assert result.confusion == (ConfusionCell("a", None, 1), ConfusionCell("b", "a", 2))
    assert evaluate([("b", "a"), ("a", "c")]).labels == ("a", "b")


def test_nothing_to_compare_has_no_scores() -> None:
    result = evaluate([])
    assert (result.pairs, result.accuracy, result.macro.undefined_as_1.mean_f1) == (0, None, None)
    assert evaluate([("z", "z")], ["a"]).weighted.undefined_as_1.precision is None


labels = st.sampled_from("abcd")


@given(st.lists(st.tuples(labels, st.none() | labels | st.just("outside")), min_size=1))
def test_every_pair_is_accounted_for(pairs: list[tuple[str, str | None]]) -> None:
    result = evaluate(pairs, "abcd")
    assert sum(cell.count for cell in result.confusion) == result.pairs == len(pairs)
    assert sum(score.support for score in result.classes) == len(pairs)
    predicted = sum(score.predicted for score in result.classes)
    assert predicted + result.missing + sum(result.outside.values()) == len(pairs)
    assert result.weighted.undefined_as_0.recall == pytest.approx(result.accuracy)
    for averages in (result.macro.undefined_as_0, result.weighted.undefined_as_1):
        for value in (averages.precision, averages.recall, averages.mean_f1):
            assert value is not None
            assert 0 <= value <= 1
