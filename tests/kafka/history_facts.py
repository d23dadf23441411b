"""The facts of a history, read from PostgreSQL, the broker and the vendor's journal."""

from __future__ import annotations

from typing import Final

from assay.vendor.journal import read_journal
from kafka.history import Call, Facts, Move
from kafka.produced import Feed
from kafka.topic_runs import committed
from labelling_project import Project

# Topics of one name are sources one after the other.
_LIVES: Final = (
    "SELECT source_id, (row_number() OVER (ORDER BY source_id) - 1)::int4 AS life"
    " FROM assay.sources WHERE kind = 'kafka'"
)
# A call of which nobody knows whether it arrived.
_UNSEEN: Final = ("provider_connection", "provider_timeout")


def read_facts(
    project: Project, feed: Feed, bootstrap: str, group: str, partitions: int, *, journal: bool = True
) -> Facts:
    """Everything, once all is quiet."""

    def places(query: str) -> dict[tuple[int, tuple[int, int]], tuple[object, ...]]:
        rows = project.rows(f"WITH lives AS ({_LIVES}) {query}")
        return {(life, (partition, offset)): tuple(rest) for life, partition, offset, *rest in rows}

    inputs = places(
        # A record that came from a file first has no place in the topic: life -1.
        "SELECT coalesce(life, -1), partition_no, source_offset, record_id, input_version, input_sha256"
        " FROM assay.inputs LEFT JOIN lives USING (source_id)"
    )
    duplicates = places(
        "SELECT life, partition_no, source_offset, record_id, input_version"
        " FROM assay.source_duplicates JOIN lives USING (source_id)"
    )
    isolated = places(
        "SELECT life, partition_no, source_offset, error_code"
        " FROM assay.isolated_records JOIN lives USING (source_id)"
    )
    return Facts(
        sent=tuple(feed.sent),
        inputs={(str(r), int(str(v))): (*at, _bytes(sha)) for at, (r, v, sha) in inputs.items()},
        duplicates={at: (str(r), int(str(v))) for at, (r, v) in duplicates.items()},
        isolated={at: str(code) for at, (code,) in isolated.items()},
        tasks={
            task: ((record, version), state)
            for task, record, version, state in project.rows(
                "SELECT task_id, record_id, input_version, state::text FROM assay.annotation_tasks"
            )
        },
        moves=[
            Move(*row)
            for row in project.rows(
                "SELECT task_id, move::text, attempt_id::text, replaced_attempt_id::text"
                " FROM assay.task_history ORDER BY history_id"
            )
        ],
        calls=[
            Call(task, attempt, number, outcome,
                 seen=outcome != "outcome_unknown" and not (status is None and code in _UNSEEN))
            for task, attempt, number, outcome, status, code in project.rows(
                "SELECT task_id, attempt_id::text, pass_number, outcome, http_status, code FROM assay.calls"
            )
        ],
        results=dict(project.rows("SELECT record_id, input_version FROM assay.results")),
        committed=committed(bootstrap, group, feed.topic, partitions),
        ledger=ledger(project, feed.life),
        journal=_keys(project) if journal else None,
        broken=tuple(project.broken()),
    )  # fmt: skip


def ledger(project: Project, life: int) -> dict[int, int]:
    """The offsets that PostgreSQL has for one topic of the name."""
    return dict(project.rows(
        f"WITH lives AS ({_LIVES}) SELECT partition_no, max(committed_offset) FROM assay.source_checkpoints"
        f" JOIN lives USING (source_id) WHERE life = {life} GROUP BY 1"
    ))  # fmt: skip


def _keys(project: Project) -> list[str]:
    entries = read_journal(project.folder / "journal.jsonl")
    return [entry.idempotency_key or "(none)" for entry in entries]


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value
