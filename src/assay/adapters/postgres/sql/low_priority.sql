-- Records of low priority, paused and resumed per pipeline. Acts are only ever added; the last one counts.

-- name: low_lock
-- One act at a time: of two that pause at once only one is the change.
SELECT pg_advisory_xact_lock(%(lock_class)s::int4, hashtext(%(name)s::text))

-- name: low_act
-- Unless it is so already; nothing for a pipeline that was never registered.
INSERT INTO assay.low_priority_acts (name, kind, reason, actor, at)
SELECT %(name)s::text, %(kind)s::text, %(reason)s::text, %(actor)s::text, assay.assay_now()
WHERE %(kind)s::text <> coalesce((
          SELECT a.kind FROM assay.low_priority_acts a WHERE a.name = %(name)s ORDER BY a.act_id DESC LIMIT 1),
          'resumed')
RETURNING act_id

-- name: low_waiting
-- How many tasks of the pipeline wait for low priority to be resumed; NULL for one that was never registered.
SELECT CASE WHEN EXISTS (SELECT FROM assay.pipeline_versions v WHERE v.name = %(name)s::text) THEN (
    SELECT count(*) FROM assay.parked_tasks p
    JOIN assay.pipeline_versions v ON v.version_id = p.version_id
    WHERE v.name = %(name)s AND p.low) END
