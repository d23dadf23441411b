"""Many finished tasks, quickly: consistent rows by SQL with triggers off."""

from __future__ import annotations

from typing import Final

import psycopg

_AT: Final = "2026-01-01 00:00:00+00"

# Ids follow the number of the task, so that rows of all tables fit each other without look-ups.
_FILL: Final = (
    """INSERT INTO assay_vault.texts (text_ref, kek_id, wrapped_key, ciphertext)
       SELECT n, 'none', '', '' FROM generate_series(%(first)s::int, %(last)s::int) n""",
    """INSERT INTO assay.inputs (record_id, input_version, input_sha256, encrypted_text_ref, source_id,
           partition_no, source_offset, first_seen_at)
       SELECT 'r' || md5(n::text), 1, sha256(n::text::bytea), n, %(source_id)s::int, 0, n - 1,
              %(at)s::timestamptz
       FROM generate_series(%(first)s::int, %(last)s::int) n""",
    """INSERT INTO assay.annotation_tasks (task_id, record_id, input_version, version_id, input_sha256,
           encrypted_text_ref, state, attempts, quality_probability, quality_selected, first_claimed_at,
           moves, last_move, last_moved_at, last_actor, last_reason)
       OVERRIDING SYSTEM VALUE
       SELECT n, 'r' || md5(n::text), 1, %(version_id)s::int, sha256(n::text::bytea), n, 'auto_candidate', 1,
              0, false, %(at)s::timestamptz, 2, 'accept', %(at)s::timestamptz, 'w', 'confident'
       FROM generate_series(%(first)s::int, %(last)s::int) n""",
    """INSERT INTO assay.task_history (task_id, at, move, from_state, to_state, attempt_id, actor, reason)
       SELECT n, %(at)s::timestamptz, m.move::assay.task_move, m.before::assay.task_state,
              m.after::assay.task_state,
              md5('a' || n)::uuid, 'w', m.reason
       FROM generate_series(%(first)s::int, %(last)s::int) n,
            (VALUES ('claim', NULL, 'processing', NULL),
                    ('accept', 'processing', 'auto_candidate', 'confident'))
            AS m (move, before, after, reason)
       ORDER BY n, m.before NULLS FIRST""",
    """INSERT INTO assay.annotation_outputs (task_id, attempt_id, label_json, confidence, accept_at,
           finished_at)
       SELECT n, md5('a' || n)::uuid, '{"category": "billing", "confidence": 0.9}', 0.9, 0.85,
              %(at)s::timestamptz
       FROM generate_series(%(first)s::int, %(last)s::int) n""",
    """INSERT INTO assay.calls (task_id, attempt_id, version_id, pass_number, outcome, billed, recorded_at)
       SELECT n, md5('a' || n)::uuid, %(version_id)s::int, 1, 'accepted', true, %(at)s::timestamptz
       FROM generate_series(%(first)s::int, %(last)s::int) n""",
    """INSERT INTO assay.spend AS s (version_id, day, stripe, cost, calls, calls_unknown)
       SELECT %(version_id)s::int, (%(at)s::timestamptz AT TIME ZONE 'UTC')::date, 0, 0, count(*), count(*)
       FROM generate_series(%(first)s::int, %(last)s::int) n
       ON CONFLICT (version_id, day, stripe) DO UPDATE SET
           calls = s.calls + excluded.calls, calls_unknown = s.calls_unknown + excluded.calls_unknown""",
    """INSERT INTO assay.results (name, record_id, task_id, input_version, version_id, revision, updated_at)
       SELECT 'tickets', 'r' || md5(n::text), n, 1, %(version_id)s::int, 1, %(at)s::timestamptz
       FROM generate_series(%(first)s::int, %(last)s::int) n""",
    """INSERT INTO assay.outbox_events (event_id, aggregate_kind, aggregate_id, kind, revision, task_id,
           payload, created_at)
       SELECT assay.event_id('result', 'tickets/r' || md5(n::text), 'completed', 1, 0), 'result',
              'tickets/r' || md5(n::text), 'completed', 1, n,
              jsonb_build_object('record_id', 'r' || md5(n::text), 'input_version', 1, 'pipeline_version',
                                 v.pipeline_version, 'state', 'auto_candidate'), %(at)s::timestamptz
       FROM generate_series(%(first)s::int, %(last)s::int) n
       JOIN assay.pipeline_versions v ON v.version_id = %(version_id)s::int""",
    """INSERT INTO assay.dead_letters (task_id, attempt_id, version_id, error_code, failure_class, errors,
           fields, fingerprint, attempts, first_attempt_at, last_attempt_at, state, resolved_by)
       SELECT n, md5('a' || n)::uuid, %(version_id)s::int, 'attempts_exhausted', 'transient', '[]', '{}',
              assay.dead_letter_fingerprint('attempts_exhausted', NULL, '[]'), 1,
              %(at)s::timestamptz, %(at)s::timestamptz, 'resolved', 'newer_input_version'
       FROM generate_series(%(first)s::int, %(last)s::int) n WHERE n %% 5 = 0""",
    """INSERT INTO assay.review_items (task_id, version_id, reason, blind, state, created_at)
       SELECT n, %(version_id)s::int, 'low_confidence', false, 'decided', %(at)s::timestamptz
       FROM generate_series(%(first)s::int, %(last)s::int) n WHERE n %% 5 = 0""",
    "SELECT setval(pg_get_serial_sequence('assay.annotation_tasks', 'task_id'), %(last)s::int)",
    "SELECT setval('assay_vault.refs', %(last)s::int)",
)


def fill(url: str, *, count: int, version_id: int, source_id: int, first: int = 1) -> None:
    """Insert `count` tasks of line `tickets` that finished as auto_candidate, with all that belongs to them.

    Ids and offsets (plus one) run from `first` on.
    """
    terms = {
        "first": first,
        "last": first + count - 1,
        "version_id": version_id,
        "source_id": source_id,
        "at": _AT,
    }
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        for statement in _FILL:
            connection.execute(statement.encode(), terms)
        connection.execute("VACUUM (ANALYZE)")
