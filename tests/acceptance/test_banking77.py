"""Two thousand real customer questions and 77 intents, through the practice vendor on an ordinary day."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter, defaultdict
from pathlib import Path

from call_accounts import books

from assay.vendor.server import start_vendor
from assay.vendor.settings import FaultShares, VendorConfig
from labelling_project import SHARED, Project, needs_real_inputs

QUESTIONS = SHARED / "tickets" / "banking77_train_sample.jsonl"
RECORDS, INTENTS = 2000, 77
ERROR_RATE = 0.08
FAULTS = FaultShares(
    rate_limited=0.01, server_error=0.005, prose_prefix=0.03, string_confidence=0.03, extra_field=0.03,
    truncation=0.03,
)  # fmt: skip
CODES = {
    "prose_prefix": "json_invalid", "string_confidence": "schema_type_error",
    "extra_field": "schema_extra_field", "truncation": "response_truncated",
}  # fmt: skip
PIPELINE = """
import json
from pathlib import Path
from typing import Literal
from assay import Confidence, Contract, Pipeline, Prompt, Reason, Route

lines = Path({questions!r}).read_text(encoding="utf-8").splitlines()
intents = sorted({{json.loads(line)["intent"] for line in lines}})

class Question(Contract):
    intent: Literal[tuple(intents)]
    confidence: Confidence
    reason: Reason

pipeline = Pipeline(name="questions", contract=Question, model="openai:practice-1",
                    prompt=Prompt("Name the intent.", "<question>{{text}}</question>"),
                    route=Route(accept_at=0.85))
"""

pytestmark = needs_real_inputs


async def test_accuracy_and_dead_letters_are_those_that_the_vendor_made(tmp_path: Path, db_url: str) -> None:
    project = Project(tmp_path, db_url)
    project.write("questions.py", PIPELINE.format(questions=str(QUESTIONS)))
    journal = tmp_path / "journal.jsonl"
    config = VendorConfig(
        QUESTIONS, seed=11, error_rate=ERROR_RATE, faults=FAULTS, retry_after=0, label_field="intent",
        latency=0.01, journal=journal,
    )  # fmt: skip
    async with start_vendor(config) as vendor:
        told = await asyncio.to_thread(
            project.done, "run", "questions.py", "--input", str(QUESTIONS), "--map", "record_id=id",
            "--base-url", vendor.base_url, "--json",
        )  # fmt: skip
        assert vendor.stats().by_lookup == {"contained": vendor.stats().calls}
    ran = json.loads(told)
    assert ran["accepted"] + ran["review"] + ran["dead"] == RECORDS
    assert ran["lease_lost"] == ran["still_parked"] == 0
    assert project.broken() == []
    assert books(project, journal).discrepancies(most_lost=0) == []
    check_dead_letters(project, journal)

    gold = f"{QUESTIONS}#intent"
    found = json.loads(await asyncio.to_thread(
        project.done, "eval", "questions.py", "--gold", gold, "--map", "record_id=id", "--json"
    ))  # fmt: skip
    assert (found["evaluated"], found["label_count"]) == (RECORDS, INTENTS)
    assert found["missing"] == ran["dead"]
    assert found["outside_count"] == found["gold_outside_count"] == 0
    # A right answer is one that the vendor did not get wrong on purpose: binomial, four standard deviations.
    answered = RECORDS - ran["dead"]
    accuracy = found["correct"] / answered
    assert abs(accuracy - (1 - ERROR_RATE)) < 4 * math.sqrt(ERROR_RATE * (1 - ERROR_RATE) / answered)
    # A dead letter counts as wrong and stays in the denominator.
    assert math.isclose(found["accuracy"], found["correct"] / RECORDS)


def check_dead_letters(project: Project, journal: Path) -> None:
    """A task died where both passes met a fault, and nowhere else, under the code of the second one."""
    faults: dict[str, dict[str, str]] = defaultdict(dict)
    for line in journal.read_text("utf-8").splitlines():
        entry = json.loads(line)
        _, task_id, pass_number = entry["idempotency_key"].split(".")
        if entry["fault"] in CODES:
            faults[task_id][pass_number] = CODES[entry["fault"]]
    expected = {task_id: found["2"] for task_id, found in faults.items() if "2" in found}
    assert dict(
        project.rows("SELECT task_id::text, error_code FROM assay.dead_letters WHERE state = 'open'")
    ) == expected  # fmt: skip
    assert len(expected) > 10
    assert len(Counter(expected.values())) > 2
