-- Invariants of dead letters that people work on.

-- name: closed_dead_letter_has_its_act
-- A closed dead letter has its closing, with a reason, and its task's; no other has one.
SELECT 'dead letter ' || d.dead_letter_id, d.task_id
FROM assay.dead_letters d
LEFT JOIN assay.dead_letter_acts a ON a.dead_letter_id = d.dead_letter_id AND a.kind = 'closed'
LEFT JOIN (SELECT DISTINCT task_id FROM assay.task_history WHERE move = 'close') h ON h.task_id = d.task_id
WHERE (d.state = 'closed') IS DISTINCT FROM (a.act_id IS NOT NULL)
   OR (d.state = 'closed' AND (h.task_id IS NULL OR coalesce(a.reason, '') = ''))

-- name: dead_letter_is_whose_the_last_act_says
-- A dead letter is that person's whom the last act gave it, or nobody's.
SELECT 'dead letter ' || d.dead_letter_id, d.task_id
FROM assay.dead_letters d
LEFT JOIN (
    SELECT DISTINCT ON (dead_letter_id) dead_letter_id, owner
    FROM assay.dead_letter_acts
    WHERE kind IN ('assigned', 'unassigned')
    ORDER BY dead_letter_id, act_id DESC
) a ON a.dead_letter_id = d.dead_letter_id
WHERE d.owner IS DISTINCT FROM a.owner

-- name: dead_letter_fingerprint_is_of_its_errors
-- A dead letter's fingerprint and fields are those of its code, kind and errors.
SELECT 'dead letter ' || d.dead_letter_id, d.task_id
FROM assay.dead_letters d
WHERE jsonb_typeof(d.errors) = 'array'
  AND (d.fingerprint <> assay.dead_letter_fingerprint(d.error_code, d.kind, d.errors)
       OR d.fields <> assay.dead_letter_fields(d.errors))

-- name: dead_letter_comes_from_where_its_input_does
-- A dead letter's source, customer, document type and language are its input's.
SELECT 'dead letter ' || d.dead_letter_id, d.task_id
FROM assay.dead_letters d
JOIN assay.annotation_tasks t ON t.task_id = d.task_id
JOIN assay.inputs i ON i.record_id = t.record_id AND i.input_version = t.input_version
WHERE d.source_id IS NOT NULL
  AND (d.source_id, d.customer, d.document_type, d.language)
      IS DISTINCT FROM (i.source_id, i.customer, i.document_type, i.language)
