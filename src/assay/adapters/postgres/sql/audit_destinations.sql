-- Invariants of what attempts and people leave behind: outputs, dead letters, review items, results.

-- name: one_output_per_task
-- A task has one current output.
SELECT 'task ' || task_id, task_id
FROM assay.annotation_outputs
GROUP BY task_id
HAVING count(*) > 1

-- name: finished_task_has_an_output
-- A task that an attempt finished has the output of it.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
WHERE t.state <> 'erased'
  AND EXISTS (
      SELECT FROM assay.task_history h
      WHERE h.task_id = t.task_id AND h.move IN ('accept', 'refer', 'observe', 'dead_letter'))
  AND NOT EXISTS (SELECT FROM assay.annotation_outputs o WHERE o.task_id = t.task_id)

-- name: output_is_of_the_attempt_that_finished
-- An output was written by the attempt that the history shows finishing the task.
SELECT 'task ' || o.task_id, o.task_id
FROM assay.annotation_outputs o
LEFT JOIN (
    SELECT DISTINCT ON (task_id) task_id, attempt_id
    FROM assay.task_history
    WHERE move IN ('accept', 'refer', 'observe', 'dead_letter')
    ORDER BY task_id, history_id DESC
) finish ON finish.task_id = o.task_id
WHERE o.attempt_id IS DISTINCT FROM finish.attempt_id

-- name: candidate_is_confident
-- An auto_candidate has a label, not repaired, whose confidence reaches the threshold.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
JOIN assay.annotation_outputs o ON o.task_id = t.task_id
WHERE t.state = 'auto_candidate'
  AND NOT coalesce(o.label_json IS NOT NULL AND NOT o.repaired AND o.confidence >= o.accept_at, false)

-- name: plain_label_has_no_sensitive_text
-- Labels outside of the vault (outputs, events) hold no field that the contract calls sensitive.
-- The definition of a version lists its sensitive texts as JSON Pointers, `*` for any item or key.
SELECT DISTINCT 'task ' || shown.task_id, shown.task_id
FROM (
    SELECT v.version_id,
           ('$' || string_agg(
               CASE step WHEN '*' THEN '.**{1}'
               ELSE '.' || to_json(replace(replace(step, '~1', '/'), '~0', '~'))::text END, '' ORDER BY place)
            || ' ? (@.type() == "string")')::jsonpath AS path
    FROM assay.pipeline_versions v
    CROSS JOIN LATERAL jsonb_array_elements_text(
        CASE jsonb_typeof(v.definition #> '{contract,sensitive}')
        WHEN 'array' THEN v.definition #> '{contract,sensitive}' ELSE '[]' END) AS p (pointer)
    CROSS JOIN LATERAL unnest(string_to_array(substr(p.pointer, 2), '/')) WITH ORDINALITY AS s (step, place)
    GROUP BY v.version_id, p.pointer
) sensitive
JOIN assay.annotation_tasks t ON t.version_id = sensitive.version_id
JOIN (
    SELECT task_id, label_json FROM assay.annotation_outputs
    UNION ALL
    SELECT task_id, payload -> 'label' FROM assay.known_events
    WHERE jsonb_typeof(payload -> 'label') = 'object'
) shown ON shown.task_id = t.task_id
WHERE jsonb_path_exists(shown.label_json, sensitive.path)

-- name: category_draw_has_its_probability
-- An output drawn by category has the category and the probability of that draw.
SELECT 'task ' || task_id, task_id
FROM assay.annotation_outputs
WHERE stratum_selected AND NOT coalesce(stratum IS NOT NULL AND stratum_probability > 0, false)

-- name: quarantined_task_has_one_open_dead_letter
-- A quarantined task has exactly one open dead letter.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
LEFT JOIN (
    SELECT task_id, count(*) AS letters FROM assay.dead_letters
    WHERE state IN ('open', 'assigned', 'replaying') GROUP BY task_id
) d ON d.task_id = t.task_id
WHERE t.state = 'quarantined' AND d.letters IS DISTINCT FROM 1

-- name: open_dead_letter_is_of_a_quarantined_task
-- An open dead letter belongs to a quarantined task.
SELECT 'dead letter ' || d.dead_letter_id, d.task_id
FROM assay.dead_letters d
LEFT JOIN assay.annotation_tasks t ON t.task_id = d.task_id
WHERE d.state IN ('open', 'assigned', 'replaying')
  AND NOT coalesce(t.state = 'quarantined'
                   OR (d.state = 'replaying' AND t.state IN ('processing', 'retry_scheduled')), false)

-- name: dead_letter_has_the_tasks_code
-- An open dead letter has its task's code and version.
SELECT 'dead letter ' || d.dead_letter_id, d.task_id
FROM assay.dead_letters d
JOIN assay.annotation_tasks t ON t.task_id = d.task_id
WHERE d.state IN ('open', 'assigned', 'replaying') AND t.state = 'quarantined'
  AND (d.error_code <> t.error_code OR d.version_id <> t.version_id)

-- name: dead_letter_names_an_attempt_of_its_task
-- A dead letter names an attempt of its task.
SELECT 'dead letter ' || d.dead_letter_id, d.task_id
FROM assay.dead_letters d
WHERE NOT EXISTS (
    SELECT FROM assay.task_history h WHERE h.task_id = d.task_id AND h.attempt_id = d.attempt_id)

-- name: dead_letter_errors_are_paths_and_types
-- A dead letter's errors are paths and types, nothing else.
SELECT 'dead letter ' || d.dead_letter_id, d.task_id
FROM assay.dead_letters d
WHERE jsonb_typeof(d.errors) <> 'array'
   OR EXISTS (
       SELECT FROM jsonb_array_elements(
           CASE jsonb_typeof(d.errors) WHEN 'array' THEN d.errors ELSE '[]' END) AS e
       WHERE jsonb_typeof(e) <> 'object' OR NOT e ?& '{path,type}' OR e - '{path,type}'::text[] <> '{}')

-- name: task_in_review_has_one_open_item
-- A task in review has exactly one open review item.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
LEFT JOIN (
    SELECT task_id, count(*) AS items FROM assay.review_items WHERE state = 'open' GROUP BY task_id
) i ON i.task_id = t.task_id
WHERE t.state = 'review_pending' AND i.items IS DISTINCT FROM 1

-- name: open_review_item_has_a_task_to_review
-- An open review item belongs to a task in review, or to a candidate of the quality pool.
SELECT 'review item ' || i.review_id, i.task_id
FROM assay.review_items i
LEFT JOIN assay.annotation_tasks t ON t.task_id = i.task_id
LEFT JOIN assay.annotation_outputs o ON o.task_id = i.task_id
WHERE i.state = 'open'
  AND NOT coalesce(
      t.state = 'review_pending'
      OR (t.state = 'auto_candidate' AND (t.quality_selected OR o.stratum_selected)), false)

-- name: pool_candidate_has_an_item
-- A candidate drawn for the quality pool has its review item.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
LEFT JOIN assay.annotation_outputs o ON o.task_id = t.task_id
WHERE t.state = 'auto_candidate' AND (t.quality_selected OR o.stratum_selected)
  AND NOT EXISTS (
      SELECT FROM assay.review_items i WHERE i.task_id = t.task_id AND i.state IN ('open', 'decided'))

-- name: pool_item_is_blind
-- Review items of the quality pool are blind.
SELECT 'review item ' || i.review_id, i.task_id
FROM assay.review_items i
JOIN assay.annotation_tasks t ON t.task_id = i.task_id
LEFT JOIN assay.annotation_outputs o ON o.task_id = i.task_id
WHERE (t.quality_selected OR (t.state = 'auto_candidate' AND o.stratum_selected)) AND NOT i.blind

-- name: one_result_per_record
-- A pipeline line has one result per record.
SELECT 'result ' || name || '/' || record_id, max(task_id)
FROM assay.results
GROUP BY name, record_id
HAVING count(*) > 1

-- name: result_points_at_its_annotation
-- A result points at an existing task of its line, record and versions.
SELECT 'result ' || r.name || '/' || r.record_id, r.task_id
FROM assay.results r
LEFT JOIN assay.annotation_tasks t ON t.task_id = r.task_id
LEFT JOIN assay.pipeline_versions v ON v.version_id = t.version_id
WHERE (r.name, r.record_id, r.input_version, r.version_id)
      IS DISTINCT FROM (v.name, t.record_id, t.input_version, t.version_id)

-- name: result_serves_no_stale_annotation
-- No result serves a superseded or shadowed annotation.
SELECT 'result ' || r.name || '/' || r.record_id, r.task_id
FROM assay.results r
JOIN assay.annotation_tasks t ON t.task_id = r.task_id
WHERE t.state IN ('superseded', 'shadowed')

-- name: settled_task_is_served
-- A settled task's record has a result in its line.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
JOIN assay.pipeline_versions v ON v.version_id = t.version_id
LEFT JOIN assay.results r ON r.name = v.name AND r.record_id = t.record_id
WHERE t.state IN ('auto_candidate', 'review_pending', 'reviewed', 'rejected', 'quarantined')
  AND r.record_id IS NULL

-- name: result_serves_the_newest
-- A result serves the newest settled input version and pipeline version.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
JOIN assay.pipeline_versions v ON v.version_id = t.version_id
JOIN assay.results r ON r.name = v.name AND r.record_id = t.record_id
WHERE t.state IN ('auto_candidate', 'review_pending', 'reviewed', 'rejected', 'quarantined')
  AND (t.input_version, t.version_id) > (r.input_version, r.version_id)

-- name: older_input_is_superseded
-- Settled annotations of older inputs than the one served are superseded.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
JOIN assay.pipeline_versions v ON v.version_id = t.version_id
JOIN assay.results r ON r.name = v.name AND r.record_id = t.record_id
WHERE t.state IN ('auto_candidate', 'review_pending', 'reviewed', 'rejected', 'quarantined')
  AND t.input_version < r.input_version

-- name: superseded_task_has_a_successor
-- A superseded task's record has a result that is newer.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
JOIN assay.pipeline_versions v ON v.version_id = t.version_id
LEFT JOIN assay.results r ON r.name = v.name AND r.record_id = t.record_id
WHERE t.state = 'superseded'
  AND NOT coalesce((r.input_version, r.version_id) > (t.input_version, t.version_id), false)
