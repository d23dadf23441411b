"""The documented receiver of webhooks, run as it is documented, with the publisher's own requests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg
import pytest

from assay.adapters.embedded.launch import any_free_port
from assay.consumer import secrets_of, sign
from labelling_project import Project

EXAMPLE: Final = Path(__file__).parents[2] / "docs" / "examples" / "labels_from_webhook.py"
SECRET, OTHER = "b" * 43 + "=", "c" * 43 + "="
_TELL: Final = """
INSERT INTO assay.outbox_events (event_id, aggregate_kind, aggregate_id, kind, revision, payload, created_at)
SELECT assay.event_id('result', 'line/r' || n, 'completed', r, 0), 'result', 'line/r' || n, 'completed', r,
       jsonb_build_object('pipeline', 'line', 'pipeline_version', repeat('ab', 32), 'record_id', 'r' || n,
                          'input_version', r, 'revision', r, 'state', 'auto_candidate',
                          'label', jsonb_build_object('of', r), 'error_code', NULL, 'review_reason', NULL),
       assay.assay_now()
FROM generate_series(1, 2) AS r, generate_series(1, 20) AS n
ORDER BY r, n
"""


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    """Its database is the receiver's as well: they share no table."""
    return Project(tmp_path, db_url)


@contextmanager
def receiver(project: Project, port: int, secret: str = SECRET) -> Iterator[subprocess.Popen[str]]:
    """The example as a process, once it listens."""
    environment = {**os.environ, "PORT": str(port), "DATABASE_URL": project.database_url,
                   "ASSAY_WEBHOOK_SECRET": secret}  # fmt: skip
    with subprocess.Popen(
        [sys.executable, EXAMPLE], env=environment, text=True, stdout=subprocess.PIPE
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            found = re.fullmatch(rf"listening on port {port}\n", process.stdout.readline())
            assert found is not None
            yield process
        finally:
            process.kill()


def publish(project: Project, port: int) -> subprocess.CompletedProcess[str]:
    address = f"http://127.0.0.1:{port}/labels"
    return project.finished("publish", "--to", "webhook", address, "--once", ASSAY_WEBHOOK_SECRET=SECRET)


def labels(project: Project) -> list[tuple[str, int, object]]:
    return [
        (str(record), int(version), of)
        for record, version, of in project.rows(
            "SELECT record_id, input_version, label -> 'of' FROM labels ORDER BY substr(record_id, 2)::int"
        )
    ]


def test_each_label_is_kept_once_and_the_newest_stays(project: Project) -> None:
    port = any_free_port()
    with receiver(project, port) as process:
        with psycopg.connect(project.database_url) as db:
            project.done("migrate")
            db.execute(_TELL)
        assert publish(project, port).returncode == 0
        assert labels(project) == [(f"r{n}", 2, 2) for n in range(1, 21)]
        # All of it again, as after a restore: what is known changes nothing.
        with psycopg.connect(project.database_url) as db:
            db.execute("UPDATE labels SET state = 'as it was'")
            db.execute("DELETE FROM assay.outbox_receipts")
            db.execute(_TELL)
        assert publish(project, port).returncode == 0
        assert project.one("SELECT count(*) FROM labels WHERE state = 'as it was'") == 20
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_what_is_not_signed_or_no_event_is_refused(project: Project) -> None:
    port = any_free_port()

    def answer(body: bytes, secret: str) -> int:
        headers = sign("m", int(time.time()), body, secrets_of(secret))
        request = urllib.request.Request(f"http://127.0.0.1:{port}/", data=body, headers=headers)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        refused.value.close()
        return refused.value.code

    with receiver(project, port):
        assert answer(b"{}", OTHER) == 401
        assert answer(b"{}", SECRET) == 422
    # While two secrets are exchanged, both are taken.
    with receiver(project, port, f"{OTHER},{SECRET}"):
        assert answer(b"{}", SECRET) == 422
    assert project.one("SELECT count(*) FROM labels") == 0
