-- Invariants of isolated records and of records of low priority.

-- name: resolved_isolated_has_its_fix
-- A resolved isolated record has its fix, with the task that it became, and counts one replay.
SELECT 'isolated ' || i.isolated_id, NULL::int8
FROM assay.isolated_records i
LEFT JOIN assay.isolated_acts a ON a.isolated_id = i.isolated_id AND a.kind = 'fixed'
LEFT JOIN assay.annotation_tasks t
    ON t.task_id = a.task_id AND t.record_id = a.record_id AND t.input_version = a.input_version
WHERE i.state = 'resolved' AND (t.task_id IS NULL OR i.replay_count <> 1)

-- name: ended_isolated_has_its_act
-- A closed isolated record has its closing, an open one neither closing nor fix.
SELECT 'isolated ' || i.isolated_id, NULL::int8
FROM assay.isolated_records i
LEFT JOIN assay.isolated_acts a ON a.isolated_id = i.isolated_id AND a.kind IN ('closed', 'fixed')
WHERE (i.state = 'closed' AND a.kind IS DISTINCT FROM 'closed') OR (i.state = 'open' AND a.kind IS NOT NULL)

-- name: work_list_knows_the_priority
-- The work list says of each waiting task whether its record is of low priority.
SELECT 'task ' || p.task_id, p.task_id
FROM assay.parked_tasks p
JOIN assay.annotation_tasks t ON t.task_id = p.task_id
JOIN assay.inputs i ON i.record_id = t.record_id AND i.input_version = t.input_version
WHERE p.low IS DISTINCT FROM coalesce(i.priority = 'low', false)
