-- Invariants of inputs, tasks and histories.

-- name: one_task_per_annotation
-- Record, input version and pipeline version have one task.
SELECT 'task ' || max(task_id), max(task_id)
FROM assay.annotation_tasks
GROUP BY record_id, input_version, version_id
HAVING count(*) > 1

-- name: task_has_its_input
-- Every task that is not erased has its input.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
LEFT JOIN assay.inputs i ON i.record_id = t.record_id AND i.input_version = t.input_version
WHERE i.record_id IS NULL AND t.state <> 'erased'

-- name: task_hash_is_the_inputs
-- A task carries the content fingerprint of its input.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
JOIN assay.inputs i ON i.record_id = t.record_id AND i.input_version = t.input_version
WHERE t.input_sha256 <> i.input_sha256

-- name: task_text_is_the_inputs
-- A task refers to the same encrypted text as its input.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
JOIN assay.inputs i ON i.record_id = t.record_id AND i.input_version = t.input_version
WHERE t.encrypted_text_ref <> i.encrypted_text_ref

-- name: task_has_a_version
-- Every task belongs to a registered pipeline version.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
LEFT JOIN assay.pipeline_versions v ON v.version_id = t.version_id
WHERE v.version_id IS NULL

-- name: input_has_a_task
-- Every input was claimed: at least one task annotates it.
SELECT 'input ' || i.record_id || ' version ' || i.input_version, NULL::int8
FROM assay.inputs i
WHERE NOT EXISTS (
    SELECT FROM assay.annotation_tasks t
    WHERE t.record_id = i.record_id AND t.input_version = i.input_version)

-- name: lease_fits_the_state
-- Attempt and lease are set while processing, and only then.
SELECT 'task ' || task_id, task_id
FROM assay.annotation_tasks
WHERE (state = 'processing') <> (attempt_id IS NOT NULL)
   OR (state = 'processing') <> (lease_until IS NOT NULL)

-- name: due_time_fits_the_state
-- not_before is set while a retry is scheduled, and only then.
SELECT 'task ' || task_id, task_id
FROM assay.annotation_tasks
WHERE (state = 'retry_scheduled') <> (not_before IS NOT NULL)

-- name: quarantined_task_has_a_code
-- A quarantined task says which code refused it.
SELECT 'task ' || task_id, task_id
FROM assay.annotation_tasks
WHERE state = 'quarantined' AND error_code IS NULL

-- name: task_in_review_has_a_reason
-- A task in review says why a person must decide.
SELECT 'task ' || task_id, task_id
FROM assay.annotation_tasks
WHERE state = 'review_pending' AND review_reason IS NULL

-- name: attempts_fit_the_history
-- A task counts no more attempts than its history has leases.
-- Parks may give attempts back, nothing else changes their number.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
LEFT JOIN (
    SELECT task_id, count(*) FILTER (WHERE to_state = 'processing') AS leases
    FROM assay.task_history GROUP BY task_id
) h ON h.task_id = t.task_id
WHERE t.attempts < 0 OR t.attempts > h.leases OR (t.state = 'processing' AND t.attempts < 1)

-- name: quality_draw_has_its_probability
-- A record in the quality pool has the probability of its draw.
SELECT 'task ' || task_id, task_id
FROM assay.annotation_tasks
WHERE quality_probability NOT BETWEEN 0 AND 1 OR (quality_selected AND quality_probability = 0)

-- name: history_is_a_chain
-- Each move of a task starts where the one before ended, the first from nothing.
SELECT DISTINCT 'task ' || task_id, task_id
FROM (
    SELECT task_id, from_state, lag(to_state) OVER (PARTITION BY task_id ORDER BY history_id) AS before
    FROM assay.task_history
) chain
WHERE from_state IS DISTINCT FROM before

-- name: history_reaches_the_task
-- A task has as many history rows as moves, and shows what the last one says.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
LEFT JOIN (
    SELECT task_id, count(*) AS moves, max(history_id) AS last_id FROM assay.task_history GROUP BY task_id
) told ON told.task_id = t.task_id
LEFT JOIN assay.task_history h ON h.history_id = told.last_id
WHERE told.moves IS DISTINCT FROM t.moves
   OR (h.to_state, h.move, h.at, h.actor, h.reason)
      IS DISTINCT FROM (t.state, t.last_move, t.last_moved_at, t.last_actor, t.last_reason)

-- name: history_has_legal_moves_only
-- Every move in the history is in the table of moves.
SELECT 'task ' || task_id || ', move ' || move, task_id
FROM assay.task_history
WHERE (coalesce(from_state::text, ''), move::text, to_state::text) NOT IN (
    SELECT * FROM unnest(%(from_states)s::text[], %(moves)s::text[], %(to_states)s::text[]))

-- name: history_is_of_a_task
-- Every history row belongs to a task.
SELECT 'history ' || h.history_id, h.task_id
FROM assay.task_history h
LEFT JOIN assay.annotation_tasks t ON t.task_id = h.task_id
WHERE t.task_id IS NULL

-- name: history_says_who_and_why
-- Every move has an actor, and a reason unless it is a claim.
-- A claim and a take-over are their own reason.
SELECT 'task ' || task_id || ', move ' || move, task_id
FROM assay.task_history
WHERE actor = '' OR (move NOT IN ('claim', 'take_over') AND coalesce(reason, '') = '')

-- name: move_names_the_attempt_that_held_the_lease
-- A move out of processing, a take-over too, names the attempt that held the lease just before.
-- A lease begins with an attempt of its own and ends with the same one; a take-over names whom it replaced.
SELECT 'task ' || task_id || ', move ' || move, task_id
FROM (
    SELECT task_id, move, from_state, to_state, attempt_id, replaced_attempt_id,
           lag(attempt_id) OVER (PARTITION BY task_id ORDER BY history_id) AS holder
    FROM assay.task_history
) chain
WHERE CASE WHEN move = 'take_over'
           THEN replaced_attempt_id IS DISTINCT FROM holder OR attempt_id IS NULL OR attempt_id = holder
           WHEN to_state = 'processing' THEN attempt_id IS NULL
           WHEN from_state = 'processing' THEN attempt_id IS DISTINCT FROM holder
           ELSE false END

-- name: lease_is_the_last_attempts
-- The attempt that holds a lease is the last one that the history knows.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
LEFT JOIN LATERAL (
    SELECT h.attempt_id FROM assay.task_history h
    WHERE h.task_id = t.task_id AND h.to_state = 'processing'
    ORDER BY h.history_id DESC LIMIT 1
) last_lease ON true
WHERE t.state = 'processing' AND t.attempt_id IS NOT NULL
  AND t.attempt_id IS DISTINCT FROM last_lease.attempt_id

-- name: attempt_is_one_lease
-- An attempt is one lease on one task, never two.
SELECT 'attempt ' || attempt_id, max(task_id)
FROM assay.task_history
WHERE to_state = 'processing' AND attempt_id IS NOT NULL
GROUP BY attempt_id
HAVING count(*) > 1

-- name: freeze_stops_promotion
-- No task became auto_candidate after its version was frozen.
SELECT 'task ' || h.task_id || ', version ' || r.version_id, h.task_id
FROM assay.releases r
JOIN assay.annotation_tasks t ON t.version_id = r.version_id
JOIN assay.task_history h ON h.task_id = t.task_id
WHERE r.frozen AND h.move = 'accept' AND h.at > r.frozen_at
