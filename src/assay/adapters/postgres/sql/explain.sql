-- The whole history of one record, without its text. Reads only.

-- name: explain_inputs
-- The input versions of a record, with where each came from.
SELECT i.input_version, encode(i.input_sha256, 'hex') AS input_sha256, s.name AS source, s.kind AS source_kind,
       i.partition_no AS partition, i.source_offset AS offset, i.source_line AS line, i.first_seen_at,
       i.document_type, i.customer, i.subject_id, i.language, i.sensitivity, i.jurisdiction,
       i.schema_version, i.ocr_version, i.priority, i.correlation_id, i.trace_parent, i.document_ref,
       i.source_name, i.source_timestamp
FROM assay.inputs i
JOIN assay.sources s ON s.source_id = i.source_id
WHERE i.record_id = %(record_id)s::text
  AND (%(input_version)s::int4 IS NULL OR i.input_version = %(input_version)s)
ORDER BY i.input_version

-- name: explain_duplicates
-- Other positions at which the same record came again.
SELECT d.input_version, s.name AS source, d.partition_no AS partition, d.source_offset AS offset, d.seen_at
FROM assay.source_duplicates d
JOIN assay.sources s ON s.source_id = d.source_id
WHERE d.record_id = %(record_id)s::text
  AND (%(input_version)s::int4 IS NULL OR d.input_version = %(input_version)s)
ORDER BY d.seen_at, d.source_id, d.source_offset
LIMIT 100

-- name: explain_annotations
-- The annotations of a record, each with its current output.
SELECT t.task_id, v.name AS pipeline, v.pipeline_version, v.label AS version_label, v.code_commit,
       v.definition ->> 'model' AS model, v.definition -> 'contract' AS contract, t.input_version,
       t.state::text AS state, t.attempts, t.attempt_id,
       assay.lease_end(t.lease_until, t.lease_id) AS lease_until, t.not_before, t.first_pass_code,
       o.second_pass_code, t.error_code, t.review_reason, o.confidence, o.accept_at, o.repaired,
       o.label_json::text AS label_json, o.encrypted_label_ref IS NOT NULL AS has_sensitive, o.finished_at,
       t.quality_probability, t.quality_selected, t.first_claimed_at, t.replay_of, t.last_moved_at,
       t.last_reason,
       assay.lease_end(t.lease_until, t.lease_id) < assay.assay_now() AS lease_expired
FROM assay.annotation_tasks t
JOIN assay.pipeline_versions v ON v.version_id = t.version_id
LEFT JOIN assay.annotation_outputs o ON o.task_id = t.task_id
WHERE t.record_id = %(record_id)s::text
  AND (%(input_version)s::int4 IS NULL OR t.input_version = %(input_version)s)
  AND (%(name)s::text IS NULL OR v.name = %(name)s)
ORDER BY v.name, t.input_version, t.version_id

-- name: explain_moves
-- Every move of the record's tasks, in order.
SELECT task_id, at, move::text AS move, from_state::text AS from_state, to_state::text AS to_state,
       attempt_id, replaced_attempt_id, actor, reason
FROM assay.task_history
WHERE task_id = ANY (%(task_ids)s::int8[])
ORDER BY history_id

-- name: explain_calls
-- Every call for the record's tasks, lost ones included.
SELECT task_id, recorded_at, attempt_id, pass_number, outcome, code, http_status, finish_reason, model,
       request_id, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost, billed, latency_ms,
       response_bytes
FROM assay.calls
WHERE task_id = ANY (%(task_ids)s::int8[])
ORDER BY call_id

-- name: explain_holds
-- Stops, freezes and changed models of a task's version, from the task's first claim until it settled: what may
-- have made it wait, or kept it from becoming auto_candidate.
WITH concerned AS MATERIALIZED (
    SELECT t.task_id, t.version_id, t.first_claimed_at,
           CASE WHEN t.state IN ('processing', 'retry_scheduled') THEN 'infinity'::timestamptz
                ELSE t.last_moved_at END AS settled_at
    FROM assay.annotation_tasks t WHERE t.task_id = ANY (%(task_ids)s::int8[])
),
holds AS (
    SELECT c.task_id, 'stopped' AS what, concat_ws(': ', s.code, s.reason) AS why, s.http_status,
           s.stopped_at AS since, s.stopped_by AS by, s.cleared_at AS until, s.cleared_by AS until_by
    FROM concerned c
    JOIN assay.version_stops s ON s.version_id = c.version_id
    WHERE s.stopped_at <= c.settled_at AND coalesce(s.cleared_at, 'infinity') >= c.first_claimed_at
    UNION ALL
    SELECT c.task_id, 'frozen', e.detail ->> 'reason', NULL, e.at, e.actor, u.at, u.actor
    FROM concerned c
    JOIN assay.version_events e ON e.version_id = c.version_id AND e.kind = 'frozen'
    LEFT JOIN LATERAL (
        SELECT n.at, n.actor FROM assay.version_events n
        WHERE n.version_id = e.version_id AND n.kind = 'unfrozen' AND n.event_no > e.event_no
        ORDER BY n.event_no LIMIT 1) AS u ON true
    WHERE e.at <= c.settled_at AND coalesce(u.at, 'infinity') >= c.first_claimed_at
    UNION ALL
    SELECT c.task_id, 'model_changed', (e.detail ->> 'old') || ' to ' || (e.detail ->> 'new'), NULL, e.at,
           e.actor, NULL, NULL
    FROM concerned c
    JOIN assay.version_events e ON e.version_id = c.version_id AND e.kind = 'model_changed'
    WHERE e.at BETWEEN c.first_claimed_at AND c.settled_at
)
SELECT task_id, what, why, http_status, since, by, until, until_by
FROM holds
ORDER BY since DESC, what
LIMIT 100

-- name: explain_dead_letters
-- The dead letters of the record's tasks, each with all its evidence.
SELECT e.*
FROM assay.dead_letter_envelopes e
WHERE e.task_id = ANY (%(task_ids)s::int8[])
ORDER BY e.dead_letter_id

-- name: explain_reviews
-- The review items of the record's tasks.
SELECT task_id, review_id, reason, blind, state, created_at
FROM assay.review_items
WHERE task_id = ANY (%(task_ids)s::int8[])
ORDER BY review_id

-- name: explain_results
-- What downstream sees of the record, per line.
SELECT r.name AS pipeline, r.task_id, r.input_version, v.pipeline_version, v.label AS version_label,
       r.revision, r.updated_at
FROM assay.results r
JOIN assay.pipeline_versions v ON v.version_id = r.version_id
WHERE r.record_id = %(record_id)s::text AND r.name = ANY (%(names)s::text[])
ORDER BY r.name

-- name: explain_events
-- The events of the record, in order: those that wait or are parked, and what is left of those delivered.
SELECT event_id, aggregate_kind, aggregate_id, kind, revision, task_id, created_at, place, published_at, sink,
       position
FROM assay.known_events
WHERE (aggregate_kind = 'result' AND aggregate_id = ANY (%(result_ids)s::text[]))
   OR (aggregate_kind = 'isolated_record' AND aggregate_id = ANY (%(isolated_ids)s::text[]))
ORDER BY outbox_id

-- name: explain_isolated
-- Isolated pieces that name this record, or that stand at this row or line of a source of that name.
SELECT i.isolated_id, s.name AS source, i.partition_no AS partition, i.source_offset AS offset,
       i.source_line AS line, i.error_code, i.error_type, i.path, i.record_id, i.input_version, i.owner,
       i.state, i.replay_count, i.replay_policy, i.source_timestamp, i.created_at, a.actor AS ended_by,
       a.reason AS ended_because, a.at AS ended_at, a.fix, a.record_id AS became_record_id,
       a.input_version AS became_input_version
FROM assay.isolated_records i
JOIN assay.sources s ON s.source_id = i.source_id
LEFT JOIN assay.isolated_acts a ON a.isolated_id = i.isolated_id AND a.kind IN ('closed', 'fixed')
WHERE i.record_id = %(record_id)s::text OR a.record_id = %(record_id)s
   OR (s.name = %(source)s::text AND (i.source_offset + 1 = %(row)s::int8 OR i.source_line = %(row)s))
ORDER BY i.isolated_id

-- name: explain_at_line
-- The record that came from this row or line of a source, where it goes by an id of its own.
SELECT i.record_id
FROM assay.sources s
JOIN assay.inputs i ON i.source_id = s.source_id
WHERE s.name = %(source)s::text AND (i.source_offset + 1 = %(row)s::int8 OR i.source_line = %(row)s)
ORDER BY i.record_id
LIMIT 5

-- name: explain_neighbours
-- The ids just before and after one that is not there.
(SELECT record_id FROM assay.inputs WHERE record_id < %(record_id)s::text ORDER BY record_id DESC LIMIT 2)
UNION
(SELECT record_id FROM assay.inputs WHERE record_id > %(record_id)s::text ORDER BY record_id LIMIT 2)
ORDER BY record_id
