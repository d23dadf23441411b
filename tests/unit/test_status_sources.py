"""What `assay status` shows of sources: a topic's partitions each once, its own figures once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO

from rich.console import Console

from assay.cli.status_sources import show_sources

_AT = datetime(2026, 1, 2, tzinfo=UTC)


def row(
    partition: int | None, offset: int | None, *, kind: str = "kafka", name: str = "tickets.in",
    source_id: int = 1, fingerprint: str = "aaaaaaaabbbb", after: int = 0,
) -> dict[str, object]:  # fmt: skip
    return {
        "source_id": source_id, "source": name, "kind": kind, "fingerprint": fingerprint, "total": None,
        "pipeline": "tickets", "pipeline_version": "ab" * 32, "version_label": None, "partition": partition,
        "committed_offset": offset, "updated_at": _AT + timedelta(seconds=after), "inputs": 30,
        "malformed": 2, "conflicts": 0, "duplicates": 5,
    }  # fmt: skip


def lines(*rows: dict[str, object]) -> list[str]:
    screen = Console(file=StringIO(), width=200)
    show_sources(screen, rows)
    assert isinstance(screen.file, StringIO)
    return screen.file.getvalue().splitlines()


def test_a_topic_has_a_row_for_each_partition_and_one_in_all() -> None:
    shown = lines(row(0, 11), row(1, 7, after=9), row(2, 0))
    of_topic = [line.split() for line in shown if line.startswith("tickets.in")]
    assert len(of_topic) == 1 + 3
    assert of_topic[0].count("30") == 1
    assert "2026-01-02 00:00:09.000Z" in " ".join(of_topic[0])
    assert [(line[1], line[4]) for line in of_topic[1:]] == [("0", "11"), ("1", "7"), ("2", "0")]
    assert any("partition" in line and "done below offset" in line for line in shown)


def test_a_file_has_no_partitions() -> None:
    shown = lines(row(0, 30, kind="file", name="a.jsonl"))
    assert sum(line.startswith("a.jsonl") for line in shown) == 1
    assert not any("Partitions" in line for line in shown)


def test_topics_of_one_name_are_told_apart() -> None:
    shown = lines(row(0, 3), row(0, 4, source_id=2, fingerprint="ccccccccdddd"))
    assert sum("tickets.in (aaaaaaaa)" in line for line in shown) == 2
    assert sum("tickets.in (cccccccc)" in line for line in shown) == 2


def test_nothing_is_shown_where_nothing_was_read() -> None:
    assert lines() == []
