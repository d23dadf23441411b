"""Commands whose brokers do not answer, and files that are no JSON lines: one clear sentence."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from socket import create_server

import pytest

from assay.starter import starter_files
from labelling_project import Project


@pytest.fixture
def project(tmp_path: Path, db_url: str) -> Project:
    return Project(tmp_path, db_url)


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that is taken and says nothing: a broker that is stopped."""
    with create_server(("127.0.0.1", 0)) as mute:
        yield f"127.0.0.1:{mute.getsockname()[1]}"


def test_a_topic_is_not_read_where_no_broker_answers(project: Project, nobody: str) -> None:
    ended = project.finished("topic", "read", "--topic", "t", "--brokers", nobody)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"No broker answers at {nobody}" in ended.stderr
    assert "--brokers" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_nothing_is_sent_where_no_broker_answers(project: Project, nobody: str) -> None:
    project.write_records("a.jsonl", [{"id": "1", "text": "x"}])
    ended = project.finished("topic", "send", "a.jsonl", "--topic", "t", "--brokers", nobody)
    assert ended.returncode == 2
    assert f"No broker answers at {nobody}" in ended.stderr


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("id,text\n1,hello\n", 1),
        ('{"id": "1", "text": "x"}\n\n{"id": "2", "te\n', 3),
        ('{"id": "1", "text": "x"}\n["id", "2"]\n', 2),
        ('{\n  "id": "1"\n}\n', 1),
    ],
)
def test_a_file_of_another_kind_is_refused_before_anything_is_sent(
    project: Project, nobody: str, text: str, line: int
) -> None:
    project.write("given", text)
    ended = project.finished("topic", "send", "given", "--topic", "t", "--brokers", nobody)
    assert ended.returncode == 2
    assert f"Line {line} of given is no JSON object, and nothing was sent" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_publisher_with_nothing_to_publish_says_that_brokers_are_away(
    project: Project, nobody: str
) -> None:
    with project.started(
        "publish", "--topic", "t", "--brokers", nobody, ASSAY_LOG="human", ASSAY_LOG_LEVEL="error"
    ) as publisher:
        assert publisher.stderr is not None
        told = next(line for line in publisher.stderr if "No broker answers" in line)
        assert nobody in told
        assert "tried again" in told
        publisher.send_signal(signal.SIGTERM)
        assert publisher.wait(30) == 0


def test_an_empty_outbox_is_drained_without_brokers(project: Project, nobody: str) -> None:
    ended = project.finished("publish", "--topic", "t", "--brokers", nobody, "--once")
    assert ended.returncode == 0
    assert "Published 0 events" in ended.stdout


def test_nothing_comes_up_where_no_broker_answers(project: Project, nobody: str) -> None:
    for name, text in starter_files().items():
        project.write(name, text)
    ended = project.finished("up", "tickets.py", ASSAY_KAFKA_BROKERS=nobody)
    assert ended.returncode == 2
    assert f"No broker answers at {nobody}" in ended.stderr
    assert "--practice GOLD#COLUMN" in ended.stderr
    assert "Nothing is up" in project.finished("up", "--status").stdout
