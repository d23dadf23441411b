-- Dead letters as people work on them: found, grouped, looked at, assigned, closed. An act is written before the
-- move that it allows. Names of pipelines, versions, sources and records are looked up first, so that what
-- matches is decided by `dead_letters` alone.

-- name: letters_versions
-- The versions of a pipeline.
SELECT version_id FROM assay.pipeline_versions WHERE name = %(pipeline)s::text

-- name: letters_sources
-- The sources of a name.
SELECT source_id FROM assay.sources WHERE name = %(source)s::text

-- name: letters_tasks
-- The annotations of a record.
SELECT task_id FROM assay.annotation_tasks WHERE record_id = %(record_id)s::text

-- name: letters_now
-- The database's clock.
SELECT assay.assay_now()

-- name: letters_matching
-- Which dead letters are meant; NULL: any. It stands in front of the statements below, as `matching`.
SELECT d.*
FROM assay.dead_letters d
WHERE (%(ids)s::int8[] IS NULL OR d.dead_letter_id = ANY (%(ids)s::int8[]))
  AND (%(up_to)s::int8 IS NULL OR d.dead_letter_id <= %(up_to)s::int8)
  AND (%(states)s::text[] IS NULL OR d.state = ANY (%(states)s::text[]))
  AND (%(version_ids)s::int4[] IS NULL OR d.version_id = ANY (%(version_ids)s::int4[]))
  AND (%(source_ids)s::int4[] IS NULL OR d.source_id = ANY (%(source_ids)s::int4[]))
  AND (%(task_ids)s::int8[] IS NULL OR d.task_id = ANY (%(task_ids)s::int8[]))
  AND (%(code)s::text IS NULL OR d.error_code = %(code)s::text)
  AND (%(failure_class)s::text IS NULL OR d.failure_class = %(failure_class)s::text)
  AND (%(kind)s::text IS NULL OR d.kind = %(kind)s::text)
  AND (%(field)s::text IS NULL OR %(field)s::text = ANY (d.fields))
  AND (%(customer)s::text IS NULL OR d.customer = %(customer)s::text)
  AND (%(document_type)s::text IS NULL OR d.document_type = %(document_type)s::text)
  AND (%(language)s::text IS NULL OR d.language = %(language)s::text)
  AND (%(owner)s::text IS NULL OR d.owner = %(owner)s::text)
  AND (%(fingerprint)s::text IS NULL OR d.fingerprint = %(fingerprint)s::text)
  AND (%(since)s::timestamptz IS NULL OR d.last_attempt_at >= %(since)s::timestamptz)
  AND (%(until)s::timestamptz IS NULL OR d.last_attempt_at < %(until)s::timestamptz)
  AND (%(overdue_at)s::timestamptz IS NULL
       OR (d.due_at < %(overdue_at)s::timestamptz AND d.state IN ('open', 'assigned', 'replaying')))

-- name: letters_newest
-- Ids before `after`, newest first.
SELECT m.dead_letter_id FROM matching m
WHERE (%(after)s::int8 IS NULL OR m.dead_letter_id < %(after)s::int8)
ORDER BY m.dead_letter_id DESC
LIMIT %(most)s::int4

-- name: letters_oldest
-- Ids behind `after`, oldest first.
SELECT m.dead_letter_id FROM matching m
WHERE (%(after)s::int8 IS NULL OR m.dead_letter_id > %(after)s::int8)
ORDER BY m.dead_letter_id
LIMIT %(most)s::int4

-- name: letters_size
-- How many match, by state, and the last of them.
SELECT m.state, count(*), max(m.dead_letter_id) FROM matching m GROUP BY m.state ORDER BY m.state

-- name: letters_envelopes
-- The evidence of these dead letters.
SELECT e.* FROM assay.dead_letter_envelopes e
WHERE e.dead_letter_id = ANY (%(ids)s::int8[])
ORDER BY e.dead_letter_id

-- name: letters_cohorts
-- What matches, by those of its columns that `by` names; the others are NULL. Money and tokens are the ledger's.
SELECT CASE WHEN 'pipeline' = ANY (%(by)s::text[]) OR 'version' = ANY (%(by)s::text[]) THEN v.name END AS pipeline,
       CASE WHEN 'version' = ANY (%(by)s::text[]) THEN v.pipeline_version END AS pipeline_version,
       CASE WHEN 'version' = ANY (%(by)s::text[]) THEN v.label END AS version_label,
       CASE WHEN 'code' = ANY (%(by)s::text[]) THEN m.error_code END AS code,
       CASE WHEN 'class' = ANY (%(by)s::text[]) THEN m.failure_class END AS class,
       CASE WHEN 'kind' = ANY (%(by)s::text[]) THEN m.kind END AS kind,
       CASE WHEN 'field' = ANY (%(by)s::text[]) THEN coalesce(m.fields[1], '') END AS field,
       CASE WHEN 'source' = ANY (%(by)s::text[]) THEN s.name END AS source,
       CASE WHEN 'customer' = ANY (%(by)s::text[]) THEN m.customer END AS customer,
       CASE WHEN 'document_type' = ANY (%(by)s::text[]) THEN m.document_type END AS document_type,
       CASE WHEN 'language' = ANY (%(by)s::text[]) THEN m.language END AS language,
       CASE WHEN 'fingerprint' = ANY (%(by)s::text[]) THEN m.fingerprint END AS fingerprint,
       CASE WHEN 'state' = ANY (%(by)s::text[]) THEN m.state END AS state,
       CASE WHEN 'owner' = ANY (%(by)s::text[]) THEN m.owner END AS owner,
       count(*) AS count,
       count(*) FILTER (WHERE m.state IN ('open', 'assigned', 'replaying')) AS waiting,
       min(m.last_attempt_at) AS first_seen, max(m.last_attempt_at) AS last_seen,
       min(m.last_attempt_at) FILTER (WHERE m.state IN ('open', 'assigned', 'replaying')) AS oldest_waiting,
       sum(b.calls)::int8 AS calls, sum(b.input_tokens)::int8 AS input_tokens,
       sum(b.output_tokens)::int8 AS output_tokens, sum(b.cost) AS cost, sum(b.cost_unknown)::int8 AS cost_unknown,
       coalesce(min(m.dead_letter_id) FILTER (WHERE m.state IN ('open', 'assigned')), min(m.dead_letter_id))
           AS sample
FROM matching m
JOIN assay.pipeline_versions v ON v.version_id = m.version_id
LEFT JOIN assay.sources s ON s.source_id = m.source_id
CROSS JOIN LATERAL assay.dead_letter_burnt(m.dead_letter_id, m.task_id, m.last_attempt_at) AS b
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
ORDER BY count(*) DESC, 1, 2, 4, 7, 8, 9, 10
LIMIT %(most)s::int4

-- name: letters_finished
-- Finished tasks by the same columns, as far as tasks have them: what shares are taken of.
SELECT CASE WHEN 'pipeline' = ANY (%(by)s::text[]) OR 'version' = ANY (%(by)s::text[]) THEN v.name END AS pipeline,
       CASE WHEN 'version' = ANY (%(by)s::text[]) THEN v.pipeline_version END AS pipeline_version,
       CASE WHEN 'source' = ANY (%(by)s::text[]) THEN s.name END AS source,
       CASE WHEN 'customer' = ANY (%(by)s::text[]) THEN i.customer END AS customer,
       CASE WHEN 'document_type' = ANY (%(by)s::text[]) THEN i.document_type END AS document_type,
       CASE WHEN 'language' = ANY (%(by)s::text[]) THEN i.language END AS language,
       count(*) AS finished
FROM assay.annotation_tasks t
JOIN assay.pipeline_versions v ON v.version_id = t.version_id
LEFT JOIN assay.inputs i ON i.record_id = t.record_id AND i.input_version = t.input_version
LEFT JOIN assay.sources s ON s.source_id = i.source_id
WHERE t.state IN ('auto_candidate', 'review_pending', 'reviewed', 'rejected', 'quarantined')
  AND (%(version_ids)s::int4[] IS NULL OR t.version_id = ANY (%(version_ids)s::int4[]))
  AND (%(source_ids)s::int4[] IS NULL OR i.source_id = ANY (%(source_ids)s::int4[]))
  AND (%(customer)s::text IS NULL OR i.customer = %(customer)s::text)
  AND (%(document_type)s::text IS NULL OR i.document_type = %(document_type)s::text)
  AND (%(language)s::text IS NULL OR i.language = %(language)s::text)
  AND (%(since)s::timestamptz IS NULL OR t.last_moved_at >= %(since)s::timestamptz)
  AND (%(until)s::timestamptz IS NULL OR t.last_moved_at < %(until)s::timestamptz)
GROUP BY 1, 2, 3, 4, 5, 6

-- name: letters_costs
-- Calls that brought no answer to accept, by version and code; those whose outcome nobody knows under it.
SELECT v.name AS pipeline, v.pipeline_version, v.label AS version_label, coalesce(c.code, c.outcome) AS code,
       count(*) AS calls, coalesce(sum(c.input_tokens), 0)::int8 AS input_tokens,
       coalesce(sum(c.cached_tokens), 0)::int8 AS cached_tokens,
       coalesce(sum(c.output_tokens), 0)::int8 AS output_tokens,
       coalesce(sum(c.reasoning_tokens), 0)::int8 AS reasoning_tokens,
       coalesce(sum(c.cost), 0) AS cost, count(*) FILTER (WHERE c.billed AND c.cost IS NULL) AS cost_unknown
FROM assay.calls c
JOIN assay.pipeline_versions v ON v.version_id = c.version_id
WHERE c.outcome <> 'accepted'
  AND (%(version_ids)s::int4[] IS NULL OR c.version_id = ANY (%(version_ids)s::int4[]))
  AND (%(since)s::timestamptz IS NULL OR c.recorded_at >= %(since)s::timestamptz)
  AND (%(until)s::timestamptz IS NULL OR c.recorded_at < %(until)s::timestamptz)
GROUP BY v.name, v.version_id, v.pipeline_version, v.label, coalesce(c.code, c.outcome)
ORDER BY v.name, v.version_id, sum(c.cost) DESC NULLS LAST, 4

-- name: letters_facts
-- What a replay of these dead letters has to know: whether the text can be read, what is newer, what serves.
SELECT d.dead_letter_id,
       EXISTS (
           SELECT FROM assay_vault.texts x
           WHERE x.text_ref = t.encrypted_text_ref AND (x.subject_id IS NULL OR EXISTS (
               SELECT FROM assay_vault.subject_keys k WHERE k.subject_id = x.subject_id))) AS readable,
       (SELECT max(i.input_version) FROM assay.inputs i
        WHERE i.record_id = t.record_id AND i.input_version > t.input_version) AS newer_input,
       newer.pipeline_version AS newer_version, newer.label AS newer_version_label,
       r.task_id <> d.task_id AS served_elsewhere, served.pipeline_version AS serving_version,
       stop.code AS stopped
FROM assay.dead_letters d
JOIN assay.annotation_tasks t ON t.task_id = d.task_id
JOIN assay.pipeline_versions v ON v.version_id = d.version_id
LEFT JOIN assay.results r ON r.name = v.name AND r.record_id = t.record_id
LEFT JOIN assay.pipeline_versions served ON served.version_id = r.version_id
LEFT JOIN assay.version_stops stop ON stop.version_id = d.version_id AND stop.cleared_at IS NULL
LEFT JOIN LATERAL (
    SELECT n.pipeline_version, n.label FROM assay.pipeline_versions n
    WHERE n.name = v.name AND n.version_id > v.version_id AND NOT EXISTS (
        SELECT FROM assay.version_stops h WHERE h.version_id = n.version_id AND h.cleared_at IS NULL)
    ORDER BY n.version_id DESC
    LIMIT 1) AS newer ON true
WHERE d.dead_letter_id = ANY (%(ids)s::int8[])

-- name: letters_acts
-- What people did about dead letters, in order.
SELECT dead_letter_id, kind, at, actor, reason, owner
FROM assay.dead_letter_acts
WHERE dead_letter_id = ANY (%(ids)s::int8[])
ORDER BY act_id

-- name: letters_replays
-- The replays that a dead letter was in, and the one that it came out of, refused by a newer version: how they ended.
SELECT i.replay_id AS replay, f.fix_id AS fix, f.kind, f.description, i.dead_letter_id AS of_dead_letter, r.stage,
       r.state AS replay_state, i.state, i.reason, r.planned_at, i.released_at, i.ended_at,
       n.pipeline_version AS ran_version
FROM assay.dead_letters d
JOIN assay.replay_items i ON i.dead_letter_id = d.dead_letter_id OR i.runs_task_id = d.task_id
JOIN assay.replays r ON r.replay_id = i.replay_id
JOIN assay.fixes f ON f.fix_id = r.fix_id
LEFT JOIN assay.annotation_tasks t ON t.task_id = i.runs_task_id
LEFT JOIN assay.pipeline_versions n ON n.version_id = t.version_id
WHERE d.dead_letter_id = %(id)s::int8
ORDER BY i.replay_id, i.place

-- name: letters_calls
-- The calls of a dead letter's task, each under the key that its vendor saw.
SELECT c.recorded_at, c.pass_number, c.outcome, c.code, c.http_status, c.finish_reason, c.input_tokens,
       c.cached_tokens, c.output_tokens, c.reasoning_tokens, c.cost, c.billed, c.latency_ms, c.response_bytes,
       c.model, c.request_id, c.attempt_id || '.' || c.task_id || '.' || c.pass_number AS idempotency_key
FROM assay.dead_letters d
JOIN assay.calls c ON c.task_id = d.task_id
WHERE d.dead_letter_id = %(id)s::int8
ORDER BY c.call_id

-- name: letters_known
-- Which of these ids name a dead letter.
SELECT dead_letter_id FROM assay.dead_letters WHERE dead_letter_id = ANY (%(ids)s::int8[])

-- name: letters_lock
-- Dead letters, held until the transaction ends, in order. Run after `letters_tasks_lock`.
SELECT dead_letter_id, task_id, state, owner
FROM assay.dead_letters
WHERE dead_letter_id = ANY (%(ids)s::int8[])
ORDER BY dead_letter_id
FOR UPDATE

-- name: letters_tasks_lock
-- The tasks of dead letters, held until the transaction ends, in key order: as finishes and replays hold them.
SELECT t.task_id, t.state::text
FROM assay.dead_letters d
JOIN assay.annotation_tasks t ON t.task_id = d.task_id
WHERE d.dead_letter_id = ANY (%(ids)s::int8[])
ORDER BY t.record_id, t.input_version, t.version_id
FOR UPDATE OF t

-- name: letters_act
-- One act of a person on each.
INSERT INTO assay.dead_letter_acts (dead_letter_id, kind, at, actor, reason, owner)
SELECT u.dead_letter_id, %(kind)s::text, clock.now, %(actor)s::text, %(reason)s::text, %(owner)s::text
FROM unnest(%(ids)s::int8[]) AS u (dead_letter_id)
CROSS JOIN (SELECT assay.assay_now() AS now OFFSET 0) AS clock
ORDER BY u.dead_letter_id

-- name: letters_assign
-- Run after the act: somebody has them, or nobody.
UPDATE assay.dead_letters d
SET owner = %(owner)s::text, state = CASE WHEN %(owner)s::text IS NULL THEN 'open' ELSE 'assigned' END
WHERE d.dead_letter_id = ANY (%(ids)s::int8[])

-- name: letters_close
-- Run after the act: the tasks are rejected, their dead letters closed, the results that point at them get a
-- revision, and downstream hears of it.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
moved AS (
    UPDATE assay.annotation_tasks t
    SET state = 'rejected', moves = t.moves + 1, last_move = 'close', last_moved_at = clock.now,
        last_actor = %(actor)s::text, last_reason = %(reason)s::text
    FROM clock
    WHERE t.task_id = ANY (%(task_ids)s::int8[]) AND t.state = 'quarantined'
    RETURNING t.task_id, t.record_id, t.input_version, t.version_id, t.error_code
),
served AS MATERIALIZED (
    SELECT r.name, r.record_id, m.task_id, m.input_version, m.error_code, v.pipeline_version
    FROM moved m
    JOIN assay.pipeline_versions v ON v.version_id = m.version_id
    JOIN assay.results r ON r.name = v.name AND r.record_id = m.record_id AND r.task_id = m.task_id
    ORDER BY r.name, r.record_id
    FOR UPDATE OF r
),
pointed AS (
    UPDATE assay.results r SET revision = r.revision + 1, updated_at = clock.now
    FROM served s, clock
    WHERE r.name = s.name AND r.record_id = s.record_id
    RETURNING r.name, r.record_id, r.revision
),
announced AS (
    INSERT INTO assay.outbox_events
        (event_id, aggregate_kind, aggregate_id, kind, revision, task_id, payload, created_at)
    SELECT assay.event_id('result', p.name || '/' || p.record_id, 'rejected', p.revision, i.restore_epoch),
           'result', p.name || '/' || p.record_id, 'rejected', p.revision, s.task_id,
           jsonb_build_object(
               'pipeline', p.name, 'pipeline_version', s.pipeline_version, 'record_id', p.record_id,
               'input_version', s.input_version, 'revision', p.revision, 'state', 'rejected', 'label', NULL,
               'error_code', s.error_code, 'review_reason', NULL),
           clock.now
    FROM pointed p
    JOIN served s ON s.name = p.name AND s.record_id = p.record_id
    CROSS JOIN assay.instance i
    CROSS JOIN clock
    ORDER BY p.name, p.record_id
)
UPDATE assay.dead_letters d SET state = 'closed'
WHERE d.task_id IN (SELECT m.task_id FROM moved m) AND d.dead_letter_id = ANY (%(ids)s::int8[])

-- name: letters_terms
-- When a pipeline's dead letters are due and expire, as it was last said; no row where nobody did.
SELECT due_seconds, expire_seconds, actor, at
FROM assay.dead_letter_terms
WHERE name = %(pipeline)s::text
ORDER BY term_id DESC
LIMIT 1

-- name: letters_set_terms
-- From here on; what waits already keeps its dates.
INSERT INTO assay.dead_letter_terms (name, due_seconds, expire_seconds, actor, at)
VALUES (%(pipeline)s::text, %(due_seconds)s::float8, %(expire_seconds)s::float8, %(actor)s::text,
        assay.assay_now())
