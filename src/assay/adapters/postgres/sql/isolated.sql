-- Isolated records: found, looked at, taken on, closed, fixed. An act is written before the move that it allows.

-- name: isolated_list
-- Isolated records without their bytes, oldest first. NULL: any.
SELECT i.isolated_id, s.kind AS source_kind, s.name AS source, i.partition_no AS partition,
       i.source_offset AS offset, i.source_line AS line, i.source_timestamp, i.error_code, i.error_type, i.path,
       i.record_id, i.input_version, i.state, i.owner, i.replay_count, i.replay_policy, i.created_at
FROM assay.isolated_records i
JOIN assay.sources s ON s.source_id = i.source_id
WHERE (%(isolated_id)s::int8 IS NULL OR i.isolated_id = %(isolated_id)s)
  AND (%(state)s::text IS NULL OR i.state = %(state)s)
  AND (%(code)s::text IS NULL OR i.error_code = %(code)s)
  AND (%(error_type)s::text IS NULL OR i.error_type = %(error_type)s)
  AND (%(source)s::text IS NULL OR s.name = %(source)s)
  AND (%(partition)s::int4 IS NULL OR i.partition_no = %(partition)s)
  AND (%(since_seconds)s::float8 IS NULL
       OR i.created_at >= assay.assay_now() - make_interval(secs => %(since_seconds)s))
  AND i.isolated_id > %(after)s::int8
ORDER BY i.isolated_id
LIMIT %(most)s::int4

-- name: isolated_acts
-- What was done about an isolated record, in order.
SELECT kind, at, actor, reason, owner, fix, mapping, record_id, input_version, task_id
FROM assay.isolated_acts
WHERE isolated_id = %(isolated_id)s::int8
ORDER BY act_id

-- name: isolated_lock
-- The record, held until the transaction ends, with the rules that its source is read by.
SELECT i.state, i.error_code, s.mapping
FROM assay.isolated_records i
JOIN assay.sources s ON s.source_id = i.source_id
WHERE i.isolated_id = %(isolated_id)s::int8
FOR UPDATE OF i

-- name: isolated_sealed
-- Everything that opens isolated bytes and makes a record of them, in order. `lock_open` is run before it.
SELECT i.isolated_id, i.source_id, s.kind, s.name, s.mapping, i.partition_no, i.source_offset, i.source_line,
       (extract(epoch FROM i.source_timestamp) * 1000)::int8, i.error_code, i.record_id, i.input_version,
       i.attributes, w.kek_id, w.wrapped_key, w.subject_id, k.kek_id, k.wrapped_key, w.ciphertext
FROM assay.isolated_records i
JOIN assay.sources s ON s.source_id = i.source_id
JOIN assay_vault.raws w ON w.raw_ref = i.raw_ref
LEFT JOIN assay_vault.subject_keys k ON k.subject_id = w.subject_id
WHERE i.isolated_id = ANY (%(isolated_ids)s::int8[])
ORDER BY i.isolated_id

-- name: isolated_lock_open
-- Of these records those that are open still, held until the transaction ends, in order.
SELECT i.isolated_id
FROM assay.isolated_records i
WHERE i.isolated_id = ANY (%(isolated_ids)s::int8[]) AND i.state = 'open'
ORDER BY i.isolated_id
FOR UPDATE OF i

-- name: isolated_act
-- An act of a person; a fix is written by isolated_fix.
INSERT INTO assay.isolated_acts (isolated_id, kind, at, actor, reason, owner)
VALUES (%(isolated_id)s, %(kind)s, assay.assay_now(), %(actor)s, %(reason)s, %(owner)s)

-- name: isolated_assign
-- Somebody takes it on.
UPDATE assay.isolated_records SET owner = %(owner)s::text WHERE isolated_id = %(isolated_id)s::int8

-- name: isolated_close
-- Nothing will come of it; run after the act.
UPDATE assay.isolated_records SET state = 'closed' WHERE isolated_id = %(isolated_id)s::int8

-- name: isolated_fix
-- Fixes, each with the input that the piece became and the task that annotates it.
INSERT INTO assay.isolated_acts
    (isolated_id, kind, at, actor, reason, fix, mapping, record_id, input_version, task_id)
SELECT u.isolated_id, 'fixed', clock.now, %(actor)s::text, %(reason)s::text, %(fix)s::text, %(mapping)s::text,
       t.record_id, t.input_version, t.task_id
FROM unnest(%(isolated_ids)s::int8[], %(record_ids)s::text[], %(input_versions)s::int4[])
     AS u (isolated_id, record_id, input_version)
CROSS JOIN (SELECT assay.assay_now() AS now OFFSET 0) AS clock
JOIN assay.annotation_tasks t
    ON t.record_id = u.record_id AND t.input_version = u.input_version AND t.version_id = %(version_id)s::int4
ORDER BY u.isolated_id

-- name: isolated_resolve
-- Run after the fixes.
UPDATE assay.isolated_records i SET state = 'resolved', replay_count = i.replay_count + 1
FROM (SELECT isolated_id FROM assay.isolated_records
      WHERE isolated_id = ANY (%(isolated_ids)s::int8[]) ORDER BY isolated_id) AS fixed
WHERE i.isolated_id = fixed.isolated_id

-- name: isolated_tasks
-- How the tasks stand that fixes made.
SELECT a.isolated_id, t.state::text AS state, v.name AS pipeline, v.pipeline_version
FROM assay.isolated_acts a
JOIN assay.annotation_tasks t ON t.task_id = a.task_id
JOIN assay.pipeline_versions v ON v.version_id = t.version_id
WHERE a.kind = 'fixed' AND a.isolated_id = %(isolated_id)s::int8
