-- How far a pipeline is behind its topics, and its events behind it.

-- name: lag_pipeline
-- The moment, and whether the pipeline has a version here.
SELECT clock.now,
       EXISTS (SELECT FROM assay.pipeline_versions v WHERE v.name = %(pipeline)s::text) AS known
FROM (SELECT assay.assay_now() AS now OFFSET 0) AS clock

-- name: lag_sources
-- Topics that were ever opened; `ours`: this pipeline has settled something of it.
SELECT s.name AS topic, s.fingerprint,
       bool_or(EXISTS (
           SELECT FROM assay.source_checkpoints c JOIN assay.pipeline_versions v USING (version_id)
           WHERE c.source_id = s.source_id AND v.name = %(pipeline)s::text)) AS ours
FROM assay.sources s
WHERE s.kind = 'kafka'
GROUP BY s.name, s.fingerprint
ORDER BY min(s.source_id)

-- name: lag_positions
-- The first offset without a durable destination, by topic as it was and partition, whichever version read it.
SELECT s.fingerprint, c.partition_no AS partition, max(c.committed_offset) AS settled
FROM assay.sources s
JOIN assay.source_checkpoints c USING (source_id)
WHERE s.kind = 'kafka'
GROUP BY s.fingerprint, c.partition_no

-- name: lag_unfinished
-- Accepted and not finished, by where the input came from; a task in either state is in a claim batch or parked.
-- `held`: a pause of low priority keeps it waiting, which somebody wanted: it has no age.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
versions AS MATERIALIZED (
    SELECT v.version_id, assay.low_paused(v.version_id) AS paused
    FROM assay.pipeline_versions v
    WHERE v.name = %(pipeline)s::text
)
SELECT u.topic, u.partition, count(*) AS unfinished, count(*) FILTER (WHERE u.held) AS held,
       extract(epoch FROM clock.now - min(u.first_claimed_at) FILTER (WHERE NOT u.held))::float8 AS oldest_seconds
FROM (
    SELECT CASE s.kind WHEN 'kafka' THEN s.name END AS topic,
           CASE s.kind WHEN 'kafka' THEN i.partition_no END AS partition,
           t.first_claimed_at,
           v.paused AND t.state = 'retry_scheduled' AND coalesce(p.low, false) AS held
    FROM (SELECT unnest(b.task_ids) AS task_id FROM assay.claim_batches b JOIN versions USING (version_id)
          UNION
          SELECT p.task_id FROM assay.parked_tasks p JOIN versions USING (version_id)) AS member
    JOIN assay.annotation_tasks t ON t.task_id = member.task_id
    JOIN versions v ON v.version_id = t.version_id
    LEFT JOIN assay.parked_tasks p ON p.task_id = t.task_id
    JOIN assay.inputs i ON i.record_id = t.record_id AND i.input_version = t.input_version
    JOIN assay.sources s ON s.source_id = i.source_id
    WHERE t.state IN ('processing', 'retry_scheduled')
) AS u
CROSS JOIN clock
GROUP BY u.topic, u.partition, clock.now

-- name: lag_outbox
-- Events that wait, by where the living publishers of their buckets send to; no sink: nobody has them.
WITH waiting AS MATERIALIZED (
    SELECT e.bucket, count(*) AS backlog, min(e.created_at) AS oldest FROM assay.outbox_events e GROUP BY e.bucket
),
refused AS MATERIALIZED (
    SELECT f.bucket, count(*) AS refused FROM assay.outbox_failures f GROUP BY f.bucket
)
SELECT p.sink, count(DISTINCT p.publisher) AS publishers, coalesce(sum(w.backlog), 0)::int8 AS backlog,
       extract(epoch FROM clock.now - min(w.oldest))::float8 AS oldest_seconds,
       coalesce(sum(r.refused), 0)::int8 AS refused
FROM (SELECT assay.assay_now() AS now OFFSET 0) AS clock
CROSS JOIN assay.outbox_buckets b
LEFT JOIN assay.outbox_publishers p ON p.publisher = b.owner AND p.lease_until > clock.now
LEFT JOIN waiting w ON w.bucket = b.bucket
LEFT JOIN refused r ON r.bucket = b.bucket
GROUP BY p.sink, clock.now
ORDER BY p.sink
