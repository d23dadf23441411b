"""`assay publish` from the command line: a file as the sink, settings that do not fit, acts."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psycopg
import pytest

from labelling_project import Project

_TELL = """
INSERT INTO assay.outbox_events (event_id, aggregate_kind, aggregate_id, kind, revision, payload, created_at)
SELECT assay.event_id('result', 'line/r' || n, 'completed', 1, 0), 'result', 'line/r' || n, 'completed', 1,
       jsonb_build_object('pipeline', 'line', 'pipeline_version', repeat('ab', 32), 'record_id', 'r' || n,
                          'input_version', 1, 'revision', 1, 'state', 'auto_candidate', 'label', NULL,
                          'error_code', NULL, 'review_reason', NULL),
       assay.assay_now()
FROM generate_series(1, %s::int) AS n
"""


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return Project(tmp_path, db_url)


def tell(project: Project, count: int) -> None:
    with psycopg.connect(project.database_url, autocommit=True) as db:
        db.execute(_TELL, (count,))


def test_events_go_to_a_file_once(project: Project) -> None:
    tell(project, 20)
    figures = json.loads(project.done("publish", "--to", "jsonl", "events.jsonl", "--once", "--json"))
    assert (figures["sink"], figures["published"], figures["backlog"]) == ("jsonl:events.jsonl", 20, 0)
    lines = (project.folder / "events.jsonl").read_text().splitlines()
    assert {json.loads(line)["data"]["record_id"] for line in lines} == {f"r{n}" for n in range(1, 21)}
    again = json.loads(project.done("publish", "--to", "jsonl", "events.jsonl", "--once", "--json"))
    assert again["published"] == 0
    status = json.loads(project.done("status", "--json"))["outbox"]
    assert (status["unpublished"], status["published"], status["refused"]) == (0, 20, 0)


def test_a_kind_that_this_release_does_not_know_is_refused_and_told(project: Project) -> None:
    tell(project, 3)
    with psycopg.connect(project.database_url, autocommit=True) as db:
        db.execute("UPDATE assay.outbox_events SET kind = 'snapshot_ready' WHERE aggregate_id = 'line/r2'")
    ended = project.finished("publish", "--to", "jsonl", "events.jsonl", "--once")
    assert ended.returncode == 1
    assert "refuses 1 event" in ended.stderr
    blocked = json.loads(project.done("publish", "--list-blocked", "--json"))
    assert [(each["aggregate_id"], each["reason"]) for each in blocked] == [("line/r2", "event_kind_unknown")]


def test_log_lines_tell_the_start_and_the_end(project: Project) -> None:
    tell(project, 5)
    with project.started(
        "publish", "--to", "jsonl", "events.jsonl", ASSAY_LOG="json", ASSAY_LOG_LEVEL="info"
    ) as publisher:
        assert publisher.stderr is not None
        first = json.loads(publisher.stderr.readline())
        assert (first["event"], first["sink"]) == ("publish_started", "jsonl:events.jsonl")
        publisher.send_signal(signal.SIGTERM)
        lines = [json.loads(line) for line in publisher.stderr]
        assert publisher.wait(30) == 0
    ended = next(line for line in lines if line["event"] == "publish_ended")
    assert ended["reason"] == "drained"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--brokers", "kafka:9092"), "Name the topic"),
        (("--topic", "t"), "Name the brokers"),
        (("--topic", "t", "--brokers", "kafka"), "HOST:PORT"),
        (("--topic", "t", "--dlq-topic", "t", "--brokers", "kafka:9092"), "another one than the topic"),
        (("events.jsonl", "--topic", "t", "--brokers", "kafka:9092"), "--to webhook"),
        (("--to", "jsonl"), "Give the file"),
        (("--to", "jsonl", "x", "--topic", "t"), "--topic is for --to kafka"),
        (("--to", "webhook"), "Give the webhook's URL"),
        (("--to", "webhook", "https://localhost/"), "ASSAY_WEBHOOK_SECRET"),
        (("--to", "jsonl", "x", "--lease", "2"), "--lease"),
        (("--park", "7"), "--reason"),
        (("--park", "7", "--reason", "r"), "event id"),
        (("--list-blocked", "--park", "7"), "Give one of"),
        (
            ("--park", "00000000-0000-0000-0000-000000000000", "--reason", "r"),
            "refuses no event of this id",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(project: Project, arguments: tuple[str, ...], told: str) -> None:
    ended = project.finished("publish", *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert told in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_mistyped_sink_is_told_without_the_words_of_the_parser(project: Project) -> None:
    ended = project.finished("publish", "--to", "kafak")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(
        "assay: Invalid value for '--to': 'kafak' is not one of 'kafka', 'webhook'"
    )


def test_old_receipts_are_dropped_by_name(project: Project) -> None:
    tell(project, 1)
    project.done("publish", "--to", "jsonl", "events.jsonl", "--once")
    assert "Receipts of 0 days dropped." in project.done("publish", "--drop-receipts-older-than", "1")
