-- Pipeline versions and their release rows.

-- name: register_version
-- The same digest again is the same version (xmax tells); its release row is made with it. The price is no part
-- of a version: what a lost call is charged at follows it.
INSERT INTO assay.pipeline_versions
    (name, pipeline_version, label, definition, code_commit, call_reserve, registered_at)
VALUES (%(name)s, %(pipeline_version)s, %(label)s, %(definition)s::text::jsonb, %(code_commit)s,
        %(call_reserve)s, assay.assay_now())
ON CONFLICT (name, pipeline_version) DO UPDATE SET call_reserve = excluded.call_reserve
RETURNING version_id, xmax = 0

-- name: register_release
-- Every version has a release row from its registration on.
INSERT INTO assay.releases (version_id) VALUES (%(version_id)s) ON CONFLICT DO NOTHING

-- name: find_version
-- A version by its digest.
SELECT version_id, label FROM assay.pipeline_versions
WHERE name = %(name)s AND pipeline_version = %(pipeline_version)s

-- name: find_label
-- The digest that carries a label.
SELECT pipeline_version FROM assay.pipeline_versions WHERE name = %(name)s AND label = %(label)s

-- name: name_version
-- Give a version its label, once.
UPDATE assay.pipeline_versions SET label = %(label)s WHERE version_id = %(version_id)s AND label IS NULL

-- name: list_versions
-- Versions of one line, or of all, in the order of their registration. `left_out`: a person stopped it before any
-- of its records was settled, most likely because it was a mistake.
SELECT v.version_id, v.name, v.pipeline_version, v.label, v.code_commit, v.registered_at,
       v.definition ->> 'model' AS model, r.stage, r.frozen, s.code AS stopped,
       CASE WHEN s.code = %(by_person)s::text THEN NOT EXISTS (
           SELECT FROM assay.annotation_tasks t
           WHERE t.version_id = v.version_id AND t.state NOT IN ('processing', 'retry_scheduled'))
       ELSE false END AS left_out
FROM assay.pipeline_versions v
JOIN assay.releases r USING (version_id)
LEFT JOIN assay.version_stops s ON s.version_id = v.version_id AND s.cleared_at IS NULL
WHERE %(name)s::text IS NULL OR v.name = %(name)s
ORDER BY v.name, v.version_id

-- name: resolve_version
-- By label, or by a prefix of the digest (6 hex digits or more).
SELECT v.version_id, v.name, v.pipeline_version, v.label, v.definition
FROM assay.pipeline_versions v
WHERE (v.name = %(name)s OR %(name)s::text IS NULL)
  AND (v.label = %(reference)s
       OR (%(reference)s ~ '^[0-9a-f]{6,64}$' AND starts_with(v.pipeline_version, %(reference)s)))
ORDER BY v.version_id

-- name: left_behind
-- Work of other versions of this line that only a run of theirs will finish: parked, or left by a dead worker. A
-- version that a person stopped is not waited for.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
left_over AS (
    SELECT p.version_id FROM assay.parked_tasks p
    UNION ALL
    SELECT t.version_id
    FROM assay.claim_batches b
    CROSS JOIN clock
    CROSS JOIN LATERAL unnest(b.task_ids) AS member (task_id)
    JOIN assay.annotation_tasks t ON t.task_id = member.task_id
    WHERE t.state = 'processing' AND assay.lease_end(t.lease_until, t.lease_id) < clock.now
)
SELECT v.pipeline_version, v.label, count(*)
FROM left_over l
JOIN assay.pipeline_versions v ON v.version_id = l.version_id
WHERE v.name = %(name)s AND v.version_id <> %(version_id)s
  AND NOT EXISTS (SELECT FROM assay.version_stops s
                  WHERE s.version_id = v.version_id AND s.cleared_at IS NULL AND s.code = %(by_person)s::text)
GROUP BY v.version_id, v.pipeline_version, v.label
ORDER BY v.version_id
