-- Finish is fenced by attempt_id and state, and is one transaction: lock the versions · move the tasks, with
-- outputs, calls, results and events · dead letters, review items, the work list. Each statement after
-- finish_tasks works only on the tasks that finish_tasks returned, whose rows this transaction has locked.

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
-- The fence, and all that every finish writes, in one statement: what follows the move is fed from its RETURNING
-- and can therefore not be written for a task that was not moved. The attempt must match, an unexpired lease is
-- not asked for: a paid result that nobody took over still commits. Callers send finishes in key order; the
-- lateral lookup locks rows in the order of the offer, before the update. The answer names attempts, not tasks: a
-- worker that took its own task over may send both attempts at once. `serves`: the line's result now points at
-- the task; it does not where a newer input version or pipeline version serves already. A replay of a task
-- replaces its output: there is one current output.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now,
                                   assay.last_outage(%(account)b::text) AS outage_until),
offered AS MATERIALIZED (
    SELECT u.*, CASE WHEN u.sealed IS NOT NULL THEN nextval('assay_vault.refs') END AS label_ref
    FROM unnest(
        %(task_ids)b::int8[], %(attempt_ids)b::uuid[], %(text_refs)b::int8[], %(states)b::text[],
        %(moves)b::text[], %(reasons)b::text[], %(error_codes)b::text[], %(review_reasons)b::text[],
        %(first_pass_codes)b::text[], %(second_pass_codes)b::text[], %(delays)b::float8[],
        %(uses_attempt)b::bool[], %(accept_ats)b::numeric[], %(plain)b::text[], %(sealed)b::bytea[],
        %(confidences)b::numeric[], %(strata)b::text[], %(stratum_probabilities)b::float4[],
        %(stratum_selected)b::bool[]
    ) AS u (task_id, attempt_id, text_ref, state, move, reason, error_code, review_reason, first_pass_code,
            second_pass_code, delay_seconds, uses_attempt, accept_at, plain, sealed, confidence, stratum,
            stratum_probability, stratum_selected)
),
fenced AS MATERIALIZED (
    SELECT o.task_id, o.attempt_id, o.text_ref, o.error_code, o.first_pass_code, o.second_pass_code,
           o.delay_seconds, o.uses_attempt, o.accept_at, o.plain, o.sealed, o.label_ref, o.confidence,
           o.stratum, o.stratum_probability, o.stratum_selected,
           CASE WHEN held THEN 'review_pending' ELSE o.state END AS state,
           CASE WHEN held THEN 'refer' ELSE o.move END AS move,
           CASE WHEN held THEN 'version_frozen' ELSE o.reason END AS reason,
           CASE WHEN held THEN 'version_frozen' ELSE o.review_reason END AS review_reason
    FROM offered o
    CROSS JOIN LATERAL (
        SELECT t.version_id FROM assay.annotation_tasks t
        WHERE t.task_id = o.task_id AND t.attempt_id = o.attempt_id AND t.state = 'processing'
        FOR UPDATE
    ) AS t
    CROSS JOIN LATERAL (
        SELECT o.state = 'auto_candidate' AND coalesce(
            (SELECT r.frozen FROM assay.releases r WHERE r.version_id = t.version_id), true) AS held
    ) AS release
),
moved AS (
    UPDATE assay.annotation_tasks t
    SET state = f.state::assay.task_state,
        attempt_id = NULL,
        lease_until = NULL,
        lease_id = NULL,
        not_before = CASE WHEN f.state = 'retry_scheduled'
                          THEN clock.now + make_interval(secs => f.delay_seconds) END,
        attempts = t.attempts - CASE WHEN f.uses_attempt THEN 0 ELSE 1 END,
        -- The function only where there was an outage: a call of it per row costs as much as the rest.
        aged_seconds = t.aged_seconds + CASE WHEN clock.outage_until > t.last_moved_at
            THEN assay.time_spent(t.last_moved_at, clock.now, %(account)b::text, clock.outage_until)
            ELSE extract(epoch FROM clock.now - t.last_moved_at) END,
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
    RETURNING t.task_id, t.record_id, t.input_version, t.version_id, t.state, t.error_code, t.review_reason,
              t.last_moved_at, f.attempt_id, f.text_ref, f.accept_at, f.plain, f.sealed, f.label_ref,
              f.confidence, f.stratum, f.stratum_probability, f.stratum_selected,
              f.first_pass_code, f.second_pass_code
),
ledger AS (
    INSERT INTO assay.calls
        (task_id, attempt_id, version_id, pass_number, outcome, code, billed, model, request_id,
         http_status, finish_reason, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost,
         latency_ms, response_bytes, recorded_at)
    SELECT c.*, clock.now
    FROM unnest(
        %(call_task_ids)b::int8[], %(call_attempt_ids)b::uuid[], %(call_version_ids)b::int4[],
        %(call_pass_numbers)b::int2[], %(call_outcomes)b::text[], %(call_codes)b::text[],
        %(call_billed)b::bool[], %(call_models)b::text[], %(call_request_ids)b::text[],
        %(call_http_statuses)b::int4[], %(call_finish_reasons)b::text[], %(call_input_tokens)b::int8[],
        %(call_output_tokens)b::int8[], %(call_cached_tokens)b::int8[], %(call_reasoning_tokens)b::int8[],
        %(call_costs)b::numeric[], %(call_latencies_ms)b::float4[], %(call_response_bytes)b::int8[]
    ) AS c (task_id, attempt_id)
    CROSS JOIN clock
    WHERE c.attempt_id IN (SELECT m.attempt_id FROM moved m)
),
outputs AS (
    INSERT INTO assay.annotation_outputs
        (task_id, attempt_id, label_json, encrypted_label_ref, confidence, accept_at, first_pass_code,
         second_pass_code, stratum, stratum_probability, stratum_selected, finished_at)
    SELECT m.task_id, m.attempt_id, m.plain::jsonb, m.label_ref, m.confidence, m.accept_at,
           m.first_pass_code, m.second_pass_code, m.stratum, m.stratum_probability,
           coalesce(m.stratum_selected, false), m.last_moved_at
    FROM moved m
    WHERE m.state <> 'retry_scheduled'
    ON CONFLICT (task_id) DO UPDATE SET
        attempt_id = excluded.attempt_id, label_json = excluded.label_json,
        encrypted_label_ref = excluded.encrypted_label_ref, confidence = excluded.confidence,
        accept_at = excluded.accept_at, first_pass_code = excluded.first_pass_code,
        second_pass_code = excluded.second_pass_code, stratum = excluded.stratum,
        stratum_probability = excluded.stratum_probability, stratum_selected = excluded.stratum_selected,
        finished_at = excluded.finished_at
),
vaulted AS (
    INSERT INTO assay_vault.labels (label_ref, text_ref, task_id, ciphertext)
    SELECT m.label_ref, m.text_ref, m.task_id, m.sealed
    FROM moved m
    WHERE m.sealed IS NOT NULL AND m.state <> 'retry_scheduled'
),
-- Of two versions of one record that finish together the newer one serves; the other is superseded afterwards.
pointed AS (
    INSERT INTO assay.results AS r
        (name, record_id, task_id, input_version, version_id, revision, updated_at)
    SELECT DISTINCT ON (v.name, m.record_id)
        v.name, m.record_id, m.task_id, m.input_version, m.version_id, 1, m.last_moved_at
    FROM moved m
    JOIN assay.pipeline_versions v ON v.version_id = m.version_id
    WHERE m.state <> 'retry_scheduled'
    ORDER BY v.name, m.record_id, m.input_version DESC, m.version_id DESC
    ON CONFLICT (name, record_id) DO UPDATE SET
        task_id = excluded.task_id, input_version = excluded.input_version,
        version_id = excluded.version_id, revision = r.revision + 1, updated_at = excluded.updated_at
    WHERE (excluded.input_version, excluded.version_id) >= (r.input_version, r.version_id)
    RETURNING r.name, r.record_id, r.task_id, r.revision
),
-- One event per result that now points at one of these tasks, ordered by the result row's lock.
announced AS (
    INSERT INTO assay.outbox_events
        (event_id, aggregate_kind, aggregate_id, kind, revision, task_id, payload, created_at)
    SELECT assay.event_id('result', p.name || '/' || p.record_id, e.kind, p.revision, i.restore_epoch),
           'result', p.name || '/' || p.record_id, e.kind, p.revision, m.task_id,
           jsonb_build_object(
               'pipeline', p.name, 'pipeline_version', v.pipeline_version, 'record_id', p.record_id,
               'input_version', m.input_version, 'revision', p.revision, 'state', m.state,
               'label', m.plain::jsonb, 'error_code', m.error_code, 'review_reason', m.review_reason),
           m.last_moved_at
    FROM pointed p
    JOIN moved m ON m.task_id = p.task_id
    JOIN assay.pipeline_versions v ON v.version_id = m.version_id
    CROSS JOIN assay.instance i
    CROSS JOIN LATERAL (
        SELECT CASE m.state WHEN 'quarantined' THEN 'quarantined' ELSE 'completed' END AS kind) AS e
    ORDER BY p.name, p.record_id
)
SELECT m.attempt_id, m.state::text, p.task_id IS NOT NULL AS serves
FROM moved m
LEFT JOIN pointed p ON p.task_id = m.task_id

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
-- The evidence of what was refused for good, and when somebody should have dealt with it. A dead letter whose
-- replay failed is the same one still: it waits again, with the evidence of the last attempt.
INSERT INTO assay.dead_letters AS d
    (task_id, attempt_id, version_id, error_code, failure_class, kind, errors, fields, fingerprint,
     first_pass_code, confidence, accept_at, attempts, first_attempt_at, last_attempt_at, source_id, customer,
     document_type, language, due_at, expires_at)
SELECT u.task_id, u.attempt_id, t.version_id, t.error_code, u.failure_class, u.kind, u.errors::jsonb,
       ARRAY(SELECT jsonb_array_elements_text(u.fields::jsonb)), u.fingerprint, t.first_pass_code, u.confidence,
       u.accept_at, t.attempts, t.first_claimed_at, t.last_moved_at, i.source_id, i.customer, i.document_type,
       i.language, t.last_moved_at + make_interval(secs => coalesce(terms.due_seconds, %(due_seconds)b::float8)),
       t.last_moved_at + make_interval(secs => terms.expire_seconds)
FROM unnest(
    %(task_ids)b::int8[], %(attempt_ids)b::uuid[], %(failure_classes)b::text[], %(kinds)b::text[],
    %(errors)b::text[], %(fields)b::text[], %(fingerprints)b::text[], %(confidences)b::numeric[],
    %(accept_ats)b::numeric[]
) AS u (task_id, attempt_id, failure_class, kind, errors, fields, fingerprint, confidence, accept_at)
JOIN assay.annotation_tasks t ON t.task_id = u.task_id
LEFT JOIN LATERAL (
    SELECT i.source_id, i.customer, i.document_type, i.language FROM assay.inputs i
    WHERE i.record_id = t.record_id AND i.input_version = t.input_version
    OFFSET 0
) AS i ON true
LEFT JOIN LATERAL (
    SELECT m.due_seconds, m.expire_seconds FROM assay.dead_letter_terms m
    WHERE m.name = (SELECT v.name FROM assay.pipeline_versions v WHERE v.version_id = t.version_id)
    ORDER BY m.term_id DESC
    LIMIT 1
) AS terms ON true
ON CONFLICT (task_id) WHERE state IN ('open', 'assigned', 'replaying') DO UPDATE SET
    attempt_id = excluded.attempt_id, error_code = excluded.error_code,
    failure_class = excluded.failure_class, kind = excluded.kind, errors = excluded.errors,
    fields = excluded.fields, fingerprint = excluded.fingerprint,
    first_pass_code = excluded.first_pass_code, confidence = excluded.confidence,
    accept_at = excluded.accept_at, attempts = excluded.attempts, last_attempt_at = excluded.last_attempt_at,
    due_at = excluded.due_at, expires_at = excluded.expires_at,
    state = CASE WHEN d.owner IS NULL THEN 'open' ELSE 'assigned' END

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
INSERT INTO assay.parked_tasks AS p (task_id, version_id, due_at, low)
SELECT t.task_id, t.version_id, t.not_before, coalesce(i.priority = 'low', false)
FROM assay.annotation_tasks t
LEFT JOIN LATERAL (
    SELECT i.priority FROM assay.inputs i
    WHERE i.record_id = t.record_id AND i.input_version = t.input_version
    OFFSET 0
) AS i ON true
WHERE t.task_id = ANY (%(task_ids)b::int8[])
ORDER BY t.task_id
ON CONFLICT (task_id) DO UPDATE SET due_at = excluded.due_at

-- name: finish_unparked
-- Settled tasks leave the work list.
DELETE FROM assay.parked_tasks WHERE task_id = ANY (%(task_ids)b::int8[])

-- name: finish_proven
-- Attempts whose finish is in the history already: their commit went through, its reply was lost.
SELECT u.attempt_id, h.to_state::text
FROM unnest(%(task_ids)b::int8[], %(attempt_ids)b::uuid[]) AS u (task_id, attempt_id)
CROSS JOIN LATERAL (
    SELECT h.to_state FROM assay.task_history h
    WHERE h.task_id = u.task_id AND h.attempt_id = u.attempt_id
      AND h.move IN ('accept', 'refer', 'observe', 'park', 'dead_letter')
    OFFSET 0
) AS h

-- name: note_first_pass
-- A first-pass failure is durable before the correction is asked for: whoever goes on with this task makes the
-- correction, never a second first pass. No move; fenced like a finish. `known`: the note was written before,
-- with its call; only the reply of its commit was lost.
WITH ours AS MATERIALIZED (
    SELECT o.task_id, o.attempt_id, o.code, t.first_pass_code IS NOT NULL AS known
    FROM unnest(%(task_ids)b::int8[], %(attempt_ids)b::uuid[], %(codes)b::text[])
         AS o (task_id, attempt_id, code)
    CROSS JOIN LATERAL (
        SELECT t.first_pass_code FROM assay.annotation_tasks t
        WHERE t.task_id = o.task_id AND t.attempt_id = o.attempt_id
        FOR UPDATE
    ) AS t
)
UPDATE assay.annotation_tasks t
SET first_pass_code = ours.code
FROM ours
WHERE t.task_id = ours.task_id
RETURNING ours.attempt_id, ours.known
