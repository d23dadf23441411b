"""A folder with a pipeline in it and a database beside it: what a person who labels files has before them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from assay.adapters.postgres.audit_store import AuditStore
from assay.adapters.vault import Vault, load_kek

ASSAY: Final = (sys.executable, "-c", "from assay.cli.main import main; main()")
SHARED: Final = Path(
    os.environ.get("ASSAY_SHARED_DATA", Path(__file__).resolve().parents[1].parent / "shared" / "data")
)
needs_real_inputs: Final = pytest.mark.skipif(
    not SHARED.is_dir(), reason="real inputs are not here: set ASSAY_SHARED_DATA"
)
# No command of these tests takes longer, on a slow machine either.
PATIENCE_SECONDS: Final = 120

TICKETS: Final = """
from typing import Literal
from assay import Confidence, Contract, Pipeline, Price, Prompt, Reason, Route

class Ticket(Contract, insufficient_evidence={"category": "insufficient_evidence"}):
    category: Literal["billing", "technical", "account", "shipping", "other", "insufficient_evidence"]
    confidence: Confidence
    reason: Reason

pipeline = Pipeline(
    name="tickets", contract=Ticket, model="openai:practice-1", prompt=Prompt("Label the ticket."),
    route=Route(accept_at=0.85), max_attempts=20, price=Price(input_per_million=1, output_per_million=4),
)
"""


@dataclass(frozen=True, slots=True)
class Project:
    """`folder` is the working folder of every command, `database_url` the database of this test alone."""

    folder: Path
    database_url: str

    def write(self, name: str, text: str) -> str:
        """Write a file of the project; returns its name, as commands are given it."""
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def write_records(self, name: str, records: Sequence[object]) -> str:
        """Write JSON lines; what is a string already is a line as it is."""
        lines = (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in records)
        return self.write(name, "".join(f"{line}\n" for line in lines))

    def environment(self, extra: dict[str, str]) -> dict[str, str]:
        own = {"ASSAY_DATABASE_URL": self.database_url, "ASSAY_PROJECT": str(self.folder)}
        return os.environ | own | extra

    def finished(
        self, *arguments: str, timeout: float = PATIENCE_SECONDS, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, whatever that is."""
        return subprocess.run(
            [*ASSAY, *arguments], cwd=self.folder, env=self.environment(environment), text=True,
            capture_output=True, check=False, timeout=timeout,
        )  # fmt: skip

    def done(self, *arguments: str, **environment: str) -> str:
        """Run a command that must succeed; what it printed."""
        ended = self.finished(*arguments, timeout=PATIENCE_SECONDS, **environment)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    @contextmanager
    def started(self, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on while the block does; it is killed when the block ends before it."""
        with subprocess.Popen(
            [*ASSAY, *arguments], cwd=self.folder, env=self.environment(environment), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """What a query finds in the project's database."""
        with psycopg.connect(self.database_url) as connection:
            return connection.execute(query.encode(), parameters).fetchall()

    def one(self, query: str, *parameters: object) -> Any:
        """The only value that a query finds."""
        ((value,),) = self.rows(query, *parameters)
        return value

    def broken(self) -> list[str]:
        """The invariants that do not hold, those about sealed content included."""
        vault = Vault(load_kek({}, self.folder / ".assay" / "vault.key"))
        report = AuditStore(self.database_url, vault).audit()
        return [f"{finding.invariant}: {finding.count}" for finding in report.broken]

    def states(self) -> dict[str, int]:
        """How many tasks are in which state."""
        return dict(self.rows("SELECT state::text, count(*) FROM assay.annotation_tasks GROUP BY 1"))

    def committed(self) -> int:
        """The committed offset of the only source that was read."""
        return int(self.one("SELECT committed_offset FROM assay.source_checkpoints"))


def ended(process: subprocess.Popen[str], timeout: float = PATIENCE_SECONDS) -> tuple[int, str]:
    """Wait for a command's end: its exit code and what it said on standard error."""
    _, told = process.communicate(timeout=timeout)
    return process.returncode, told
