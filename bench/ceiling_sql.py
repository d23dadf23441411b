"""The bare loop's tables and its two statements, written once for both drivers.

The product is compared with it: no input text, no history, no calls, no check of moves, no vault.
"""

from __future__ import annotations

from typing import Final, LiteralString

TABLES: Final = """
CREATE TABLE task (
    record_id   uuid PRIMARY KEY,
    version_id  integer NOT NULL,
    status      smallint NOT NULL,
    attempt_id  uuid,
    lease_until timestamptz,
    sha256      bytea NOT NULL,
    label       jsonb,
    updated_at  timestamptz NOT NULL
);
CREATE TABLE outbox (
    outbox_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    record_id  uuid NOT NULL,
    payload    jsonb NOT NULL,
    created_at timestamptz NOT NULL
);
"""
# Where a queue usually looks for work whose owner died. The product does without; both are measured.
LEASE_INDEX: Final = "CREATE INDEX task_lease ON task (lease_until) WHERE status = 1"

ASYNCPG_CLAIM: Final = """
INSERT INTO task (record_id, version_id, status, attempt_id, lease_until, sha256, updated_at)
SELECT u.record_id, 1, 1, u.attempt_id, now() + interval '90 s', u.sha256, now()
FROM unnest($1::uuid[], $2::uuid[], $3::bytea[]) AS u (record_id, attempt_id, sha256)
ON CONFLICT (record_id) DO NOTHING
RETURNING record_id
"""
# `status <> 2` and not `= 1`: the latter lets the planner walk the partial index, which is full of entries of
# finished rows until a vacuum.
ASYNCPG_FINISH: Final = """
WITH done AS (
    UPDATE task t
    SET status = 2, attempt_id = NULL, lease_until = NULL, label = u.label::jsonb, updated_at = now()
    FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS u (record_id, attempt_id, label)
    WHERE t.record_id = u.record_id AND t.attempt_id = u.attempt_id AND t.status <> 2
    RETURNING t.record_id, t.label
)
INSERT INTO outbox (record_id, payload, created_at)
SELECT record_id, label, now() FROM done
RETURNING record_id
"""
PSYCOPG_CLAIM: Final = """
INSERT INTO task (record_id, version_id, status, attempt_id, lease_until, sha256, updated_at)
SELECT u.record_id, 1, 1, u.attempt_id, now() + interval '90 s', u.sha256, now()
FROM unnest(%b::uuid[], %b::uuid[], %b::bytea[]) AS u (record_id, attempt_id, sha256)
ON CONFLICT (record_id) DO NOTHING
RETURNING record_id
"""
PSYCOPG_FINISH: Final = """
WITH done AS (
    UPDATE task t
    SET status = 2, attempt_id = NULL, lease_until = NULL, label = u.label::jsonb, updated_at = now()
    FROM unnest(%b::uuid[], %b::uuid[], %b::text[]) AS u (record_id, attempt_id, label)
    WHERE t.record_id = u.record_id AND t.attempt_id = u.attempt_id AND t.status <> 2
    RETURNING t.record_id, t.label
)
INSERT INTO outbox (record_id, payload, created_at)
SELECT record_id, label, now() FROM done
RETURNING record_id
"""
# The whole loop of the bench: what was finished is read in order, and deleted once the broker has it.
OUTBOX_READ: Final = """
SELECT outbox_id, record_id, payload::text FROM outbox ORDER BY outbox_id LIMIT %b
"""
OUTBOX_DELETE: Final = "DELETE FROM outbox WHERE outbox_id = ANY (%b::bigint[])"
TABLE_NAMES: Final[tuple[LiteralString, ...]] = ("task", "outbox")
