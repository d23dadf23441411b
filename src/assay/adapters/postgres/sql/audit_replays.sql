-- Invariants of replays: what is let out, what became of it, and on whose word.

-- name: replay_names_its_fix
-- A replay has a fix on record, of the pipeline whose dead letters it takes.
SELECT DISTINCT 'replay ' || r.replay_id, i.task_id
FROM assay.replays r
LEFT JOIN assay.fixes f ON f.fix_id = r.fix_id
LEFT JOIN assay.replay_items i ON i.replay_id = r.replay_id
LEFT JOIN assay.annotation_tasks t ON t.task_id = i.task_id
LEFT JOIN assay.pipeline_versions v ON v.version_id = t.version_id
WHERE f.fix_id IS NULL OR (v.name <> f.name)

-- name: released_item_is_under_way
-- What a replay has let out is under way, or was overtaken just now.
-- Its annotation names the replay.
SELECT 'replay ' || i.replay_id || ', item ' || i.place, i.task_id
FROM assay.replay_items i
LEFT JOIN assay.annotation_tasks t ON t.task_id = i.runs_task_id
WHERE i.state = 'released'
  AND NOT coalesce(t.replay_id = i.replay_id AND t.state IN ('processing', 'retry_scheduled', 'superseded', 'erased'),
                   false)

-- name: replaying_dead_letter_is_let_out
-- A dead letter is being replayed while its item is out.
-- And only then; but a newer version of the record, or an erasure, may have settled it since.
SELECT 'dead letter ' || d.dead_letter_id, d.task_id
FROM assay.dead_letters d
LEFT JOIN assay.replay_items i ON i.dead_letter_id = d.dead_letter_id AND i.state = 'released'
LEFT JOIN assay.annotation_tasks t ON t.task_id = i.runs_task_id
WHERE (d.state = 'replaying') <> (i.replay_id IS NOT NULL)
  AND t.state IS DISTINCT FROM 'superseded' AND t.state IS DISTINCT FROM 'erased'
  AND NOT (i.replay_id IS NOT NULL AND d.state = 'resolved' AND d.resolved_by = 'newer_input_version')

-- name: success_resolves_its_dead_letter
-- A dead letter whose item succeeded is resolved by that replay; a failure has its own.
SELECT 'replay ' || i.replay_id || ', item ' || i.place, i.task_id
FROM assay.replay_items i
JOIN assay.dead_letters d ON d.dead_letter_id = i.dead_letter_id
WHERE (i.state = 'succeeded'
       AND NOT coalesce(d.state = 'resolved' AND d.resolved_by = 'replay:' || i.replay_id, false))
   OR (i.state = 'failed' AND NOT EXISTS (
           SELECT FROM assay.dead_letters n
           WHERE n.task_id = i.runs_task_id AND n.last_attempt_at >= i.released_at))

-- name: resolved_by_replay_has_its_item
-- A dead letter resolved by a replay is an item of it, or an older version's of the same input.
SELECT 'dead letter ' || d.dead_letter_id, d.task_id
FROM assay.dead_letters d
WHERE d.state = 'resolved' AND d.resolved_by ^@ 'replay:'
  AND NOT EXISTS (
      SELECT FROM assay.replay_items i
      JOIN assay.annotation_tasks r ON r.task_id = i.runs_task_id
      JOIN assay.annotation_tasks t ON t.record_id = r.record_id AND t.input_version = r.input_version
      WHERE t.task_id = d.task_id AND 'replay:' || i.replay_id = d.resolved_by AND i.state = 'succeeded')

-- name: replay_is_recorded
-- A replay was planned by somebody, and its last act fits its state.
SELECT 'replay ' || r.replay_id, NULL::int8
FROM assay.replays r
LEFT JOIN LATERAL (
    SELECT a.kind FROM assay.replay_acts a WHERE a.replay_id = r.replay_id ORDER BY a.act_id DESC LIMIT 1
) AS last ON true
WHERE last.kind IS DISTINCT FROM CASE r.state
    WHEN 'planned' THEN 'planned' WHEN 'paused' THEN 'paused' WHEN 'stopped' THEN 'stopped'
    WHEN 'finished' THEN 'finished' ELSE CASE WHEN last.kind = 'resumed' THEN 'resumed' ELSE 'started' END END

-- name: finished_replay_has_no_open_item
-- A replay that is over has nothing waiting, a finished one nothing out.
SELECT 'replay ' || r.replay_id || ', item ' || i.place, i.task_id
FROM assay.replays r
JOIN assay.replay_items i ON i.replay_id = r.replay_id
WHERE (r.state IN ('stopped', 'finished') AND i.state = 'waiting')
   OR (r.state = 'finished' AND i.state = 'released')

-- name: replay_of_is_an_older_version
-- What an annotation replays is of the same input and line, under an older version.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
LEFT JOIN assay.annotation_tasks o ON o.task_id = t.replay_of
LEFT JOIN assay.pipeline_versions v ON v.version_id = t.version_id
LEFT JOIN assay.pipeline_versions w ON w.version_id = o.version_id
WHERE t.replay_of IS NOT NULL
  AND ((t.record_id, t.input_version, v.name) IS DISTINCT FROM (o.record_id, o.input_version, w.name)
       OR o.version_id >= t.version_id)

-- name: kept_response_is_of_a_dead_letter
-- A kept response belongs to an attempt that a contract refused.
SELECT 'response ' || x.response_id, x.task_id
FROM assay_vault.responses x
WHERE NOT EXISTS (
    SELECT FROM assay.task_history h
    WHERE h.task_id = x.task_id AND h.attempt_id = x.attempt_id AND h.move = 'dead_letter')
