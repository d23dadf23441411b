-- What a finish means to the replay that let its task out. Every statement works on tasks that finish_tasks has
-- moved in this transaction (`task_ids`, all of them with a replay_id and settled now).

-- name: replay_end_letters
-- The dead letter that a task was replayed from is resolved by its success. (After another refusal it is the same
-- one still, with the evidence of the last attempt: finish_dead_letters writes that.)
UPDATE assay.dead_letters d
SET state = 'resolved', resolved_by = 'replay:' || t.replay_id, replay_count = d.replay_count + 1
FROM assay.annotation_tasks t
WHERE t.task_id = ANY (%(task_ids)b::int8[]) AND t.state <> 'quarantined'
  AND d.task_id = t.task_id AND d.state = 'replaying'

-- name: keep_responses
-- Sealed responses that a contract refused.
INSERT INTO assay_vault.responses
    (task_id, attempt_id, pass_number, truncated, ciphertext, kept_at, expires_at)
SELECT u.task_id, u.attempt_id, u.pass_number, u.truncated, u.ciphertext, clock.now,
       clock.now + make_interval(secs => u.days * 86400)
FROM unnest(
    %(task_ids)b::int8[], %(attempt_ids)b::uuid[], %(pass_numbers)b::int2[], %(truncated)b::bool[],
    %(ciphertexts)b::bytea[], %(days)b::float8[]
) AS u (task_id, attempt_id, pass_number, truncated, ciphertext, days)
CROSS JOIN (SELECT assay.assay_now() AS now OFFSET 0) AS clock

-- name: replay_inherit
-- A task that is refused again counts its replays on, from its own dead letter or from that of the annotation it was
-- replayed from.
UPDATE assay.dead_letters d
SET replay_count = before.replay_count + 1
FROM assay.annotation_tasks t
JOIN assay.replay_items i ON i.runs_task_id = t.task_id AND i.replay_id = t.replay_id AND i.state = 'released'
JOIN assay.dead_letters before ON before.dead_letter_id = i.dead_letter_id
WHERE t.task_id = ANY (%(task_ids)b::int8[]) AND t.state = 'quarantined'
  AND d.task_id = t.task_id AND d.state IN ('open', 'assigned')

-- name: replay_failed_again
-- A newer version refused it as well: the older annotation stays a dead letter, with one replay more.
UPDATE assay.dead_letters d
SET state = CASE WHEN d.owner IS NULL THEN 'open' ELSE 'assigned' END, replay_count = d.replay_count + 1
FROM assay.annotation_tasks t
WHERE t.task_id = ANY (%(task_ids)b::int8[]) AND t.state = 'quarantined'
  AND d.task_id = t.replay_of AND d.state = 'replaying'

-- name: replay_resolve_old
-- A newer version accepted it: the dead letters of older versions of this annotation are resolved by the replay.
UPDATE assay.dead_letters d
SET state = 'resolved', resolved_by = 'replay:' || t.replay_id,
    replay_count = d.replay_count + (d.task_id = t.replay_of)::int4
FROM assay.annotation_tasks t
JOIN assay.pipeline_versions v ON v.version_id = t.version_id
JOIN assay.annotation_tasks o ON o.record_id = t.record_id AND o.input_version = t.input_version
    AND o.version_id < t.version_id AND o.state = 'quarantined'
JOIN assay.pipeline_versions w ON w.version_id = o.version_id AND w.name = v.name
WHERE t.task_id = ANY (%(task_ids)b::int8[]) AND t.state <> 'quarantined' AND t.replay_of IS NOT NULL
  AND d.task_id = o.task_id AND d.state IN ('open', 'assigned', 'replaying')

-- name: replay_end_items
-- What became of the items that these tasks are. A success that did not resolve the dead letter came too late: a
-- newer version of the record had.
UPDATE assay.replay_items i
SET state = CASE WHEN t.state = 'quarantined' THEN 'failed'
                 WHEN d.resolved_by = 'replay:' || i.replay_id THEN 'succeeded' ELSE 'overtaken' END,
    reason = CASE WHEN t.state = 'quarantined' THEN t.error_code
                  WHEN d.resolved_by = 'replay:' || i.replay_id THEN NULL ELSE coalesce(d.resolved_by, d.state) END,
    ended_at = t.last_moved_at
FROM assay.annotation_tasks t, assay.dead_letters d
WHERE t.task_id = ANY (%(task_ids)b::int8[]) AND i.runs_task_id = t.task_id AND i.replay_id = t.replay_id
  AND i.state = 'released' AND d.dead_letter_id = i.dead_letter_id

-- name: replay_supersede
-- The older annotations give way to the one that was replayed from them, those of versions in between as well.
-- Rows are locked in key order.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
gone AS MATERIALIZED (
    SELECT o.task_id
    FROM assay.annotation_tasks t
    JOIN assay.pipeline_versions v ON v.version_id = t.version_id
    JOIN assay.annotation_tasks o ON o.record_id = t.record_id AND o.input_version = t.input_version
        AND o.version_id < t.version_id AND o.state = 'quarantined'
    JOIN assay.pipeline_versions w ON w.version_id = o.version_id AND w.name = v.name
    WHERE t.task_id = ANY (%(task_ids)b::int8[]) AND t.state <> 'quarantined' AND t.replay_of IS NOT NULL
    ORDER BY o.record_id, o.input_version, o.version_id
    FOR UPDATE OF o
)
UPDATE assay.annotation_tasks o
SET state = 'superseded', moves = o.moves + 1, last_move = 'supersede', last_moved_at = clock.now,
    last_actor = %(actor)b::text, last_reason = 'replayed_under_newer_version'
FROM gone, clock
WHERE o.task_id = gone.task_id
RETURNING o.task_id
