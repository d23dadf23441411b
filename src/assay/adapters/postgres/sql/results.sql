-- What versions produced, for export and for comparison with gold. Reads only.

-- name: annotations
-- One row per annotation of these versions, in key order; `served` keeps those that a result points at. The
-- revision is the result's, where it points at this annotation. Read through a server-side cursor.
SELECT t.task_id, t.version_id, t.record_id, t.input_version, t.state::text, o.label_json::text,
       o.confidence, t.error_code, t.review_reason, t.first_pass_code, t.attempts, r.revision,
       t.input_sha256, t.encrypted_text_ref, o.encrypted_label_ref
FROM assay.annotation_tasks t
LEFT JOIN assay.annotation_outputs o ON o.task_id = t.task_id
LEFT JOIN assay.results r
    ON r.name = %(name)s::text AND r.record_id = t.record_id AND r.task_id = t.task_id
WHERE t.version_id = ANY (%(version_ids)s::int4[])
  AND (%(states)s::text[] IS NULL OR t.state = ANY (%(states)s::text[]::assay.task_state[]))
  AND (NOT %(served)s::bool OR r.task_id IS NOT NULL)
ORDER BY t.record_id, t.input_version, t.version_id

-- name: sealed
-- The sealed text and label of annotations, with the wrapped keys that open them. Rows whose keys are gone
-- (erased) are missing.
SELECT u.task_id, x.kek_id, x.wrapped_key, x.subject_id, s.kek_id, s.wrapped_key,
       CASE WHEN %(with_text)s::bool THEN x.ciphertext END, l.ciphertext
FROM unnest(%(task_ids)s::int8[], %(text_refs)s::int8[], %(label_refs)s::int8[])
     AS u (task_id, text_ref, label_ref)
JOIN assay_vault.texts x ON x.text_ref = u.text_ref
LEFT JOIN assay_vault.subject_keys s ON s.subject_id = x.subject_id
LEFT JOIN assay_vault.labels l ON l.label_ref = u.label_ref

-- name: answers
-- What a version answered to these records: per record the annotation of its newest input version. `errors`
-- are those of the open dead letter.
SELECT DISTINCT ON (t.record_id)
       t.task_id, t.record_id, t.input_version, t.state::text, (o.label_json -> %(field)s::text)::text,
       t.error_code, d.errors, t.input_sha256, t.encrypted_text_ref, o.encrypted_label_ref
FROM unnest(%(record_ids)s::text[]) AS u (record_id)
JOIN assay.annotation_tasks t ON t.record_id = u.record_id AND t.version_id = %(version_id)s::int4
LEFT JOIN assay.annotation_outputs o ON o.task_id = t.task_id
LEFT JOIN assay.dead_letters d
    ON d.task_id = t.task_id AND d.state IN ('open', 'assigned', 'replaying')
ORDER BY t.record_id, t.input_version DESC

-- name: count_annotated
-- How many records a version has annotated, and one of them.
SELECT count(DISTINCT t.record_id), min(t.record_id)
FROM assay.annotation_tasks t
WHERE t.version_id = %(version_id)s::int4
