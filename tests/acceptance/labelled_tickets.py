"""A project of labelled tickets, and a way to call commands in this process: there are many."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pytest

from assay.cli.main import main
from labelling_project import PATIENCE_SECONDS, Project

PLANTED: Final = "zqx-planted-7781"
MARKUP: Final = "[bold red]r-07[/]"
PIPELINE: Final = """
from typing import Literal
from assay import Confidence, Contract, Pipeline, Prompt, Reason, Route

class Ticket(Contract, insufficient_evidence={"category": "unclear"}):
    reason: Reason
    category: Literal["billing", "technical", "other", "unclear"]
    confidence: Confidence

pipeline = Pipeline(name="tickets", contract=Ticket, model="recorded:answers.csv#one",
                    prompt=Prompt("Label the ticket."), route=Route(accept_at=0.8), label="first")
"""


def answer(category: str, confidence: str, reason: str = f"about {PLANTED}") -> str:
    # Not in the contract's order, and the number with a zero at its end: both must come out right.
    return f'{{"confidence": {confidence}, "category": "{category}", "reason": "{reason}"}}'


# id, text, answer of model one, answer of model two, gold
TICKETS: Final = (
    ("r-01", f"my invoice {PLANTED}", answer("billing", "0.90"), answer("other", "0.9"), "billing"),
    ("r-02", "the app crashes", answer("technical", "0.95"), answer("technical", "0.9"), "technical"),
    ("r-03", "hello", answer("billing", "0.99", "=1+1"), answer("other", "0.9"), "other"),
    ("r-04", "invoice twice", answer("billing", "0.50"), answer("billing", "0.9"), "billing"),
    ("r-05", "it", answer("unclear", "0.9"), answer("unclear", "0.9"), "other"),
    ("r-06", "where is it", answer("shipping", "0.9"), answer("other", "0.9"), "other"),
    (MARKUP, "how are you", "Sure! " + answer("other", "0.9"), answer("other", "0.9"), "other"),
)


class Reader(Project):
    """A project whose commands, but for `run`, are called in this process: there are many."""

    def finished(
        self, *arguments: str, timeout: float = PATIENCE_SECONDS, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        if arguments[0] == "run":
            return super().finished(*arguments, timeout=timeout, **environment)
        out, told = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        with (
            patch.dict(os.environ, self.environment({"COLUMNS": "160"} | environment)),
            patch.object(sys, "argv", ["assay", *arguments]),
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(told),
            pytest.raises(SystemExit) as ended,
        ):
            main()
        texts = []
        for stream in (out, told):
            stream.flush()
            stream.seek(0)
            texts.append(stream.read())
        code = ended.value.code
        return subprocess.CompletedProcess(arguments, code if isinstance(code, int) else 0, *texts)


def labelled(folder: Path, database_url: str) -> Project:
    """Seven labelled tickets; a line that is none, one ticket again, one id with other content."""
    made = Reader(folder, database_url)
    made.write("tickets.py", PIPELINE)
    records: list[object] = [{"record_id": row[0], "text": row[1], "subject_id": "s-1"} for row in TICKETS]
    again, other = (
        {"record_id": "r-01", "text": TICKETS[0][1]},
        {"record_id": "r-02", "text": "other content"},
    )
    made.write_records("tickets.jsonl", [*records, f"not json {PLANTED}", again, other])
    sheet = io.StringIO()
    csv.writer(sheet).writerows([("record_id", "one", "two", "gold"), *((r[0], *r[2:]) for r in TICKETS)])
    made.write("answers.csv", sheet.getvalue())
    made.done("run", "tickets.py", "-i", "tickets.jsonl", "-q")
    return made
