"""The figures of a version's calls."""

from __future__ import annotations

import psycopg
import pytest

from assay.adapters.postgres.call_store import CallStore, PassOutcome

CALL = """
    INSERT INTO assay.calls (task_id, attempt_id, version_id, pass_number, outcome, code, billed, latency_ms,
                             output_tokens, recorded_at)
    VALUES (1, gen_random_uuid(), %s, %s, %s, %s, true, %s, %s, assay.assay_now())
"""


def test_passes_codes_and_times(db_url: str) -> None:
    with psycopg.connect(db_url) as connection:
        for values in (
            (7, 1, "accepted", None, 100.0, 10),
            (7, 1, "accepted", None, 200.0, 20),
            (7, 1, "rejected", "json_invalid", 300.0, 30),
            (7, 2, "rejected", "json_invalid", 500.0, 30),
            (7, 1, "failed", "provider_timeout", 9000.0, None),
            (7, 1, "outcome_unknown", None, None, None),
            (8, 1, "accepted", None, 1.0, 1),
        ):
            connection.execute(CALL, values)
    figures = CallStore(db_url).figures(7)
    assert figures.outcomes == (
        PassOutcome(1, "accepted", None, 2),
        PassOutcome(1, "failed", "provider_timeout", 1),
        PassOutcome(1, "outcome_unknown", None, 1),
        PassOutcome(1, "rejected", "json_invalid", 1),
        PassOutcome(2, "rejected", "json_invalid", 1),
    )
    assert (figures.answered, figures.median_ms, figures.output_tokens) == (4, 250.0, 90)
    assert figures.p95_ms == pytest.approx(470.0)


def test_a_version_without_calls(db_url: str) -> None:
    figures = CallStore(db_url).figures(7)
    assert (figures.outcomes, figures.answered, figures.median_ms, figures.p95_ms) == ((), 0, None, None)
