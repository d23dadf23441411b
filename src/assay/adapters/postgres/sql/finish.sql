-- Finish is fenced by attempt_id and state, and is one transaction: lock the versions · move the tasks ·
-- outputs, calls, dead letters, review items · results · events. Each statement after finish_tasks works only
-- on the tasks that finish_tasks returned, whose rows this transaction has locked.

-- name: finish_lock_versions
-- Shared advisory locks per version, in key order, in their own statement and before the deciding one: the
-- snapshot that reads `frozen` is then taken after a freezer's commit, or the freezer waits for us. Deciding
-- in one statement leaks candidates past a freeze.
SELECT pg_advisory_xact_lock_shared(%(lock_class)b::int4, u.version_id)
FROM (SELECT version_id FROM unnest(%(version_ids)b::int4[]) AS v (version_id) ORDER BY version_id) AS u

-- name: freeze_lock_version
-- The version's lock, alone: waits for finishes under way, holds back new ones.
SELECT pg_advisory_xact_lock(%(lock_class)b::int4, %(version_id)b::int4)

-- name: freeze_version
-- Run after freeze_lock_version in the same transaction: once this commits, no task of the version becomes
-- auto_candidate. Downstream and alerts hear of it in the same transaction.
WITH frozen AS (
    UPDATE assay.releases
    SET frozen = true, frozen_at = assay.assay_now(), frozen_reason = %(reason)b::text,
        frozen_by = %(actor)b::text, revision = revision + 1
    WHERE version_id = %(version_id)b::int4 AND NOT frozen
    RETURNING version_id, frozen_at, frozen_reason, frozen_by, revision
)
INSERT INTO assay.outbox_events
    (event_id, aggregate_kind, aggregate_id, kind, revision, payload, created_at)
SELECT assay.event_id('version', v.version_id::text, 'promotion_frozen', f.revision, i.restore_epoch),
       'version', v.version_id::text, 'promotion_frozen', f.revision,
       jsonb_build_object('pipeline', v.name, 'pipeline_version', v.pipeline_version,
                          'reason', f.frozen_reason, 'by', f.frozen_by, 'revision', f.revision),
       f.frozen_at
FROM frozen f
JOIN assay.pipeline_versions v ON v.version_id = f.version_id
CROSS JOIN assay.instance i
RETURNING outbox_id

-- name: unfreeze_version
-- Run after freeze_lock_version in the same transaction: promotion is allowed again.
UPDATE assay.releases
SET frozen = false, frozen_at = NULL, frozen_reason = NULL, frozen_by = NULL, revision = revision + 1
WHERE version_id = %(version_id)b::int4 AND frozen
RETURNING version_id

-- name: finish_tasks
-- The fence. The attempt must match, an unexpired lease is not asked for: a paid result that nobody took over
-- still commits. Rows are locked in key order before the update. The answer names attempts, not tasks: a worker
-- that took its own task over may send both attempts at once.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
offered AS MATERIALIZED (
    SELECT * FROM unnest(
        %(task_ids)b::int8[], %(attempt_ids)b::uuid[], %(states)b::text[], %(moves)b::text[],
        %(reasons)b::text[], %(error_codes)b::text[], %(review_reasons)b::text[],
        %(first_pass_codes)b::text[], %(delays)b::float8[], %(uses_attempt)b::bool[]
    ) AS u (task_id, attempt_id, state, move, reason, error_code, review_reason, first_pass_code,
            delay_seconds, uses_attempt)
),
fenced AS MATERIALIZED (
    SELECT t.task_id, o.attempt_id, o.delay_seconds, o.error_code, o.uses_attempt, o.first_pass_code,
           CASE WHEN held THEN 'review_pending' ELSE o.state END AS state,
           CASE WHEN held THEN 'refer' ELSE o.move END AS move,
           CASE WHEN held THEN 'version_frozen' ELSE o.reason END AS reason,
           CASE WHEN held THEN 'version_frozen' ELSE o.review_reason END AS review_reason
    FROM offered o
    JOIN assay.annotation_tasks t ON t.task_id = o.task_id
    LEFT JOIN assay.releases r ON r.version_id = t.version_id
    CROSS JOIN LATERAL (SELECT o.state = 'auto_candidate' AND coalesce(r.frozen, true) AS held) AS release
    WHERE t.attempt_id = o.attempt_id AND t.state = 'processing'
    ORDER BY t.record_id, t.input_version, t.version_id
    FOR UPDATE OF t
)
UPDATE assay.annotation_tasks t
SET state = f.state::assay.task_state,
    attempt_id = NULL,
    lease_until = NULL,
    not_before = clock.now + make_interval(secs => f.delay_seconds),
    aged_seconds = t.aged_seconds + extract(epoch FROM clock.now - t.last_moved_at),
    attempts = t.attempts - CASE WHEN f.uses_attempt THEN 0 ELSE 1 END,
    first_pass_code = coalesce(t.first_pass_code, f.first_pass_code),
    error_code = f.error_code,
    review_reason = f.review_reason,
    moves = t.moves + 1,
    last_move = f.move::assay.task_move,
    last_moved_at = clock.now,
    last_actor = %(actor)b::text,
    last_reason = f.reason
FROM fenced f, clock
WHERE t.task_id = f.task_id
RETURNING f.attempt_id, t.state::text

-- name: finish_outputs
-- What the attempt produced. A replay of the same task replaces the row: there is one current output.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
offered AS MATERIALIZED (
    SELECT *, CASE WHEN sealed IS NOT NULL THEN nextval('assay_vault.refs') END AS label_ref
    FROM unnest(
        %(task_ids)b::int8[], %(attempt_ids)b::uuid[], %(text_refs)b::int8[], %(plain)b::text[],
        %(sealed)b::bytea[], %(confidences)b::numeric[], %(accept_ats)b::numeric[],
        %(first_pass_codes)b::text[], %(second_pass_codes)b::text[], %(strata)b::text[],
        %(stratum_probabilities)b::float4[], %(stratum_selected)b::bool[]
    ) AS u (task_id, attempt_id, text_ref, plain, sealed, confidence, accept_at, first_pass_code,
            second_pass_code, stratum, stratum_probability, stratum_selected)
),
vaulted AS (
    INSERT INTO assay_vault.labels (label_ref, text_ref, task_id, ciphertext)
    SELECT label_ref, text_ref, task_id, sealed FROM offered WHERE sealed IS NOT NULL
)
INSERT INTO assay.annotation_outputs
    (task_id, attempt_id, label_json, encrypted_label_ref, confidence, accept_at, first_pass_code,
     second_pass_code, stratum, stratum_probability, stratum_selected, finished_at)
SELECT o.task_id, o.attempt_id, o.plain::jsonb, o.label_ref, o.confidence, o.accept_at, o.first_pass_code,
       o.second_pass_code, o.stratum, o.stratum_probability, o.stratum_selected, clock.now
FROM offered o, clock
ON CONFLICT (task_id) DO UPDATE SET
    attempt_id = excluded.attempt_id, label_json = excluded.label_json,
    encrypted_label_ref = excluded.encrypted_label_ref, confidence = excluded.confidence,
    accept_at = excluded.accept_at, first_pass_code = excluded.first_pass_code,
    second_pass_code = excluded.second_pass_code, stratum = excluded.stratum,
    stratum_probability = excluded.stratum_probability, stratum_selected = excluded.stratum_selected,
    finished_at = excluded.finished_at

-- name: record_calls
-- Safe to send again: a call that the ledger already has stays as it is.
INSERT INTO assay.calls
    (task_id, attempt_id, version_id, pass_number, outcome, code, billed, model, request_id, http_status,
     finish_reason, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost, latency_ms,
     response_bytes, recorded_at)
SELECT u.*, clock.now
FROM unnest(
    %(task_ids)b::int8[], %(attempt_ids)b::uuid[], %(version_ids)b::int4[], %(pass_numbers)b::int2[],
    %(outcomes)b::text[], %(codes)b::text[], %(billed)b::bool[], %(models)b::text[],
    %(request_ids)b::text[], %(http_statuses)b::int4[], %(finish_reasons)b::text[],
    %(input_tokens)b::int8[], %(output_tokens)b::int8[], %(cached_tokens)b::int8[],
    %(reasoning_tokens)b::int8[], %(costs)b::numeric[], %(latencies_ms)b::float4[],
    %(response_bytes)b::int8[]
) AS u (task_id, attempt_id, version_id, pass_number)
CROSS JOIN (SELECT assay.assay_now() AS now OFFSET 0) AS clock
WHERE NOT EXISTS (
    SELECT FROM assay.calls c
    WHERE c.task_id = u.task_id AND c.attempt_id = u.attempt_id AND c.pass_number = u.pass_number)

-- name: forget_unknown_calls
-- A worker that lost its lease reports its calls after all: the placeholder that the take-over wrote for them
-- gives way to the report, so that the ledger counts each call once.
DELETE FROM assay.calls c
USING unnest(%(task_ids)b::int8[], %(attempt_ids)b::uuid[], %(pass_numbers)b::int2[])
      AS u (task_id, attempt_id, pass_number)
WHERE c.task_id = u.task_id AND c.attempt_id = u.attempt_id AND c.pass_number = u.pass_number
  AND c.outcome = 'outcome_unknown'

-- name: finish_dead_letters
-- The evidence of what was refused for good.
INSERT INTO assay.dead_letters
    (task_id, attempt_id, version_id, error_code, failure_class, kind, errors, first_pass_code, confidence,
     accept_at, attempts, first_attempt_at, last_attempt_at)
SELECT u.task_id, u.attempt_id, t.version_id, t.error_code, u.failure_class, u.kind, u.errors::jsonb,
       t.first_pass_code, NULL, u.accept_at, t.attempts, t.first_claimed_at, t.last_moved_at
FROM unnest(
    %(task_ids)b::int8[], %(attempt_ids)b::uuid[], %(failure_classes)b::text[], %(kinds)b::text[],
    %(errors)b::text[], %(accept_ats)b::numeric[]
) AS u (task_id, attempt_id, failure_class, kind, errors, accept_at)
JOIN assay.annotation_tasks t ON t.task_id = u.task_id

-- name: finish_reviews
-- Items for people: what the route refers, and what a quality draw picked among candidates (always blind).
INSERT INTO assay.review_items (task_id, version_id, reason, blind, created_at)
SELECT t.task_id, t.version_id,
       CASE WHEN t.state = 'review_pending' THEN t.review_reason ELSE 'quality_pool' END,
       t.quality_selected OR o.stratum_selected, t.last_moved_at
FROM assay.annotation_tasks t
JOIN assay.annotation_outputs o ON o.task_id = t.task_id
WHERE t.task_id = ANY (%(task_ids)b::int8[])
  AND (t.state = 'review_pending'
       OR (t.state = 'auto_candidate' AND (t.quality_selected OR o.stratum_selected)))

-- name: finish_results
-- Point the line's result at the annotation, unless a newer input version or pipeline version serves already.
-- Of two versions of one record that finish together the newer one serves; the other is superseded below.
INSERT INTO assay.results AS r
    (name, record_id, task_id, input_version, version_id, revision, updated_at)
SELECT DISTINCT ON (v.name, t.record_id)
    v.name, t.record_id, t.task_id, t.input_version, t.version_id, 1, t.last_moved_at
FROM assay.annotation_tasks t
JOIN assay.pipeline_versions v ON v.version_id = t.version_id
WHERE t.task_id = ANY (%(task_ids)b::int8[])
ORDER BY v.name, t.record_id, t.input_version DESC, t.version_id DESC
ON CONFLICT (name, record_id) DO UPDATE SET
    task_id = excluded.task_id, input_version = excluded.input_version, version_id = excluded.version_id,
    revision = r.revision + 1, updated_at = excluded.updated_at
WHERE (excluded.input_version, excluded.version_id) >= (r.input_version, r.version_id)
RETURNING r.task_id

-- name: finish_events
-- One event per result that now points at one of these tasks, ordered by the result row's lock.
INSERT INTO assay.outbox_events
    (event_id, aggregate_kind, aggregate_id, kind, revision, task_id, payload, created_at)
SELECT assay.event_id('result', r.name || '/' || r.record_id, e.kind, r.revision, i.restore_epoch),
       'result', r.name || '/' || r.record_id, e.kind, r.revision, t.task_id,
       jsonb_build_object(
           'pipeline', r.name, 'pipeline_version', v.pipeline_version, 'record_id', r.record_id,
           'input_version', r.input_version, 'revision', r.revision, 'state', t.state,
           'label', o.label_json, 'error_code', t.error_code, 'review_reason', t.review_reason),
       t.last_moved_at
FROM assay.annotation_tasks t
JOIN assay.pipeline_versions v ON v.version_id = t.version_id
JOIN assay.results r ON r.name = v.name AND r.record_id = t.record_id AND r.task_id = t.task_id
LEFT JOIN assay.annotation_outputs o ON o.task_id = t.task_id
CROSS JOIN assay.instance i
CROSS JOIN LATERAL (
    SELECT CASE t.state WHEN 'quarantined' THEN 'quarantined' ELSE 'completed' END AS kind) AS e
WHERE t.task_id = ANY (%(task_ids)b::int8[])
ORDER BY r.name, r.record_id

-- name: finish_supersede
-- A newer input version took the place of older annotations of the same line; an older one that arrives late
-- is superseded at once. Annotations still in processing are left to their own finish.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
stale AS MATERIALIZED (
    SELECT t.task_id
    FROM unnest(%(record_ids)b::text[]) AS u (record_id)
    JOIN assay.results r ON r.name = %(name)b::text AND r.record_id = u.record_id
    JOIN assay.annotation_tasks t ON t.record_id = r.record_id AND t.input_version < r.input_version
    JOIN assay.pipeline_versions v ON v.version_id = t.version_id AND v.name = r.name
    WHERE t.state NOT IN ('processing', 'shadowed', 'superseded', 'erased')
    ORDER BY t.record_id, t.input_version, t.version_id
    FOR UPDATE OF t
)
UPDATE assay.annotation_tasks t
SET state = 'superseded', not_before = NULL, moves = t.moves + 1, last_move = 'supersede',
    last_moved_at = clock.now, last_actor = %(actor)b::text, last_reason = 'newer_input_version'
FROM stale, clock
WHERE t.task_id = stale.task_id
RETURNING t.task_id

-- name: close_superseded
-- Open items and parked work of superseded tasks go with them; downstream hears of it.
WITH gone AS (
    DELETE FROM assay.parked_tasks WHERE task_id = ANY (%(task_ids)b::int8[])
),
withdrawn AS (
    UPDATE assay.review_items SET state = 'withdrawn'
    WHERE task_id = ANY (%(task_ids)b::int8[]) AND state = 'open'
),
resolved AS (
    UPDATE assay.dead_letters SET state = 'resolved', resolved_by = 'newer_input_version'
    WHERE task_id = ANY (%(task_ids)b::int8[]) AND state IN ('open', 'assigned', 'replaying')
)
INSERT INTO assay.outbox_events
    (event_id, aggregate_kind, aggregate_id, kind, revision, task_id, payload, created_at)
SELECT assay.event_id('result', r.name || '/' || r.record_id, 'superseded:' || t.task_id, r.revision,
                      i.restore_epoch),
       'result', r.name || '/' || r.record_id, 'superseded', r.revision, t.task_id,
       jsonb_build_object(
           'pipeline', r.name, 'pipeline_version', v.pipeline_version, 'record_id', r.record_id,
           'input_version', t.input_version, 'revision', r.revision, 'superseded_by', r.input_version),
       t.last_moved_at
FROM assay.annotation_tasks t
JOIN assay.pipeline_versions v ON v.version_id = t.version_id
JOIN assay.results r ON r.name = v.name AND r.record_id = t.record_id
CROSS JOIN assay.instance i
WHERE t.task_id = ANY (%(task_ids)b::int8[])
ORDER BY t.task_id

-- name: finish_parked
-- Parked tasks enter the work list (or get a new due time).
INSERT INTO assay.parked_tasks AS p (task_id, version_id, due_at)
SELECT t.task_id, t.version_id, t.not_before
FROM assay.annotation_tasks t
WHERE t.task_id = ANY (%(task_ids)b::int8[])
ORDER BY t.task_id
ON CONFLICT (task_id) DO UPDATE SET due_at = excluded.due_at

-- name: finish_unparked
-- Settled tasks leave the work list.
DELETE FROM assay.parked_tasks WHERE task_id = ANY (%(task_ids)b::int8[])

-- name: finish_proven
-- Attempts whose finish is in the history already: their commit went through, its reply was lost.
SELECT h.attempt_id, h.to_state::text
FROM unnest(%(task_ids)b::int8[], %(attempt_ids)b::uuid[]) AS u (task_id, attempt_id)
JOIN assay.task_history h ON h.task_id = u.task_id AND h.attempt_id = u.attempt_id
WHERE h.move IN ('accept', 'refer', 'observe', 'park', 'dead_letter')

-- name: note_first_pass
-- A first-pass failure is durable before the correction is asked for: whoever goes on with this task makes the
-- correction, never a second first pass. No move; fenced like a finish.
WITH ours AS MATERIALIZED (
    SELECT t.task_id, o.attempt_id, o.code
    FROM unnest(%(task_ids)b::int8[], %(attempt_ids)b::uuid[], %(codes)b::text[])
         AS o (task_id, attempt_id, code)
    JOIN assay.annotation_tasks t ON t.task_id = o.task_id AND t.attempt_id = o.attempt_id
    ORDER BY t.record_id, t.input_version, t.version_id
    FOR UPDATE OF t
)
UPDATE assay.annotation_tasks t
SET first_pass_code = ours.code
FROM ours
WHERE t.task_id = ours.task_id
RETURNING ours.attempt_id
