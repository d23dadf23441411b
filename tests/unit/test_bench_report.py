"""The report: verdicts first, what was wrong in plain sight, the same figures as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from bench.report import LegReport, Table, Verdict, document, number, ranged, write
from bench.statistics import Spread


def _leg() -> LegReport:
    return LegReport(
        "rates",
        "Rates",
        tables=[Table("Rates", ("form", "records/s"), [("product", "1,234")], "One note.")],
        verdicts=[
            Verdict("1. End to end", "≥ 0.40", "0.62", True),
            Verdict("3. Lag", "≤ 100 ms", "172 ms", False),
        ],
        rounds=[{"product": 1234.5}],
    )


def test_goals_stand_first_with_a_word_for_each() -> None:
    text = document({"cores": 2}, [_leg()])

    assert text.index("| 1. End to end | ≥ 0.40 | 0.62 | pass |") < text.index("## Rates")
    assert "| 3. Lag | ≤ 100 ms | 172 ms | FAIL |" in text
    assert "| cores | 2 |" in text


def test_a_leg_that_was_cut_short_says_so() -> None:
    leg = _leg()

    assert "did not run to its end" in leg.markdown()
    leg.complete = True
    assert "did not run to its end" not in leg.markdown()


def test_what_was_wrong_with_a_run_is_printed() -> None:
    leg = _leg()
    leg.faults.append("product: 9 results, not 10")

    assert "**Wrong:** product: 9 results, not 10" in leg.markdown()


def test_a_goal_that_was_not_measured_is_neither_met_nor_missed() -> None:
    assert Verdict("4. Growth", "≥ 0.8", "", None).word == "not measured"


def test_figures_are_written_for_people_and_for_programs(tmp_path: Path) -> None:
    page = write(tmp_path / "results" / "now", {"cores": 2}, [_leg()])

    assert page.read_text("utf-8").startswith("# Benchmark")
    found = json.loads(page.with_name("report.json").read_text("utf-8"))
    assert found["environment"] == {"cores": 2}
    assert found["legs"][0]["rounds"] == [{"product": 1234.5}]


def test_figures_have_as_many_digits_as_they_deserve() -> None:
    assert [number(value) for value in (36512.4, 41.26, 0.872)] == ["36,512", "41.3", "0.87"]


def test_a_range_is_shown_where_there_is_one() -> None:
    assert ranged(Spread(2.0, 1.0, 3.0, 3)) == "2.00 [1.00–3.00]"
    assert ranged(Spread(2.0, 2.0, 2.0, 1)) == "2.00"
