"""Demos with the local model in a folder and a database of the test's own, and a server to talk to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psycopg

from assay.adapters.postgres.audit_store import AuditStore
from assay.adapters.vault import Vault, load_kek

ASSAY: Final = (sys.executable, "-c", "from assay.cli.main import main; main()")
SERVER: Final = (sys.executable, "-m", "assay.local_model")
# A busy machine computes an answer in half a minute that takes it half a second when it is free.
PATIENCE_SECONDS: Final = 400.0
_POLL_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class LocalDemo:
    """`folder` is the project and the working folder, `database_url` a migrated database of its own."""

    folder: Path
    database_url: str

    @contextmanager
    def started(self, *options: str) -> Iterator[subprocess.Popen[str]]:
        """`assay demo --model local`, killed when the block ends before it does."""
        own = {"ASSAY_DATABASE_URL": self.database_url, "ASSAY_PROJECT": str(self.folder)}
        with subprocess.Popen(
            [*ASSAY, "demo", "--model", "local", *options], cwd=self.folder, env=os.environ | own, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def done(self, *options: str) -> str:
        """Run it to its end, which must be a good one; what it printed."""
        with self.started(*options) as process:
            shown, told = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, told
        return shown

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a query finds."""
        with psycopg.connect(self.database_url) as connection:
            return connection.execute(query.encode()).fetchall()

    def states(self) -> dict[str, int]:
        """How many tasks are in which state."""
        return dict(self.rows("SELECT state::text, count(*) FROM assay.annotation_tasks GROUP BY 1"))

    def broken(self) -> list[str]:
        """The invariants that do not hold, those about sealed content included."""
        vault = Vault(load_kek({}, self.folder / ".assay" / "vault.key"))
        report = AuditStore(self.database_url, vault).audit()
        return [f"{finding.invariant}: {finding.count}" for finding in report.broken]


@contextmanager
def server(ready: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A local model as a process, and its base URL."""
    with subprocess.Popen(
        [*SERVER, "--ready-file", str(ready), "--stop-with-stdin", *options], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            until(lambda: ready.exists() or process.poll() is not None, "the local model to listen")
            assert process.poll() is None, process.communicate()[1]
            yield process, ready.read_text("utf-8").strip()
        finally:
            if process.poll() is None:
                process.kill()


def ask(base_url: str, text: str, **fields: object) -> tuple[int, dict[str, Any]]:
    """One chat completion: status and body."""
    body = {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 64} | fields
    request = Request(
        f"{base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def until(holds: Callable[[], object], what: str) -> None:
    """Ask again and again until it holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(_POLL_SECONDS)
