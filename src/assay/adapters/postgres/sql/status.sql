-- How things stand: figures of the whole database, sliced by pipeline version. Reads only.

-- name: status_versions
-- Versions with their stage.
SELECT v.version_id, v.name AS pipeline, v.pipeline_version, v.label AS version_label,
       v.definition ->> 'model' AS model, v.registered_at, r.stage, r.share, r.frozen, r.frozen_at,
       r.frozen_reason, r.frozen_by, st.code AS stopped, st.http_status AS stopped_status, st.stopped_at,
       st.stopped_by, st.reason AS stopped_reason
FROM assay.pipeline_versions v
LEFT JOIN assay.releases r USING (version_id)
LEFT JOIN assay.version_stops st ON st.version_id = v.version_id AND st.cleared_at IS NULL
ORDER BY v.name, v.version_id

-- name: status_states
-- Tasks by version and state.
SELECT version_id, state::text AS state, count(*) AS count
FROM assay.annotation_tasks
GROUP BY version_id, state
ORDER BY version_id, state

-- name: status_models
-- Models that vendors reported, by version, in the order in which they showed.
SELECT m.version_id, m.model, m.baseline, m.first_seen_at,
       EXISTS (SELECT FROM assay.version_approvals a
               WHERE a.version_id = m.version_id AND a.kind = 'model' AND a.model = m.model
                 AND a.revoked_at IS NULL) AS approved
FROM assay.version_models m
ORDER BY m.version_id, m.first_seen_at, m.model

-- name: status_waiting
-- Leases and parked work, by the database's clock. A task in either state is in a claim batch or parked. What a
-- pause of low priority holds back is not due.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
paused AS MATERIALIZED (SELECT v.version_id FROM assay.pipeline_versions v WHERE assay.low_paused(v.version_id))
SELECT t.version_id,
       count(*) FILTER (WHERE t.state = 'processing' AND assay.lease_end(t.lease_until, t.lease_id) >= clock.now) AS live_leases,
       count(*) FILTER (WHERE t.state = 'processing' AND assay.lease_end(t.lease_until, t.lease_id) < clock.now) AS expired_leases,
       count(*) FILTER (WHERE t.state = 'retry_scheduled') AS parked,
       count(*) FILTER (WHERE t.state = 'retry_scheduled' AND t.not_before <= clock.now AND held.task_id IS NULL)
           AS due,
       min(t.not_before) FILTER (WHERE t.state = 'retry_scheduled') AS next_due
FROM (SELECT unnest(b.task_ids) AS task_id FROM assay.claim_batches b
      UNION SELECT p.task_id FROM assay.parked_tasks p) AS member
JOIN assay.annotation_tasks t ON t.task_id = member.task_id
LEFT JOIN (SELECT p.task_id FROM assay.parked_tasks p JOIN paused USING (version_id) WHERE p.low) AS held
    ON held.task_id = t.task_id
CROSS JOIN clock
WHERE t.state IN ('processing', 'retry_scheduled')
GROUP BY t.version_id

-- name: status_parked
-- Parked work by version and why it waits. `oldest`: when the record that is longest at work was first claimed.
SELECT t.version_id, t.last_reason AS reason, count(*) AS count, min(t.first_claimed_at) AS oldest,
       min(t.not_before) AS next_due
FROM assay.parked_tasks p
JOIN assay.annotation_tasks t ON t.task_id = p.task_id
WHERE t.state = 'retry_scheduled'
GROUP BY t.version_id, t.last_reason
ORDER BY t.version_id, count(*) DESC, t.last_reason

-- name: status_low_priority
-- Pipelines whose records of low priority are paused, and how many tasks wait for that.
SELECT a.name AS pipeline, a.at AS since, a.actor AS by, a.reason, count(p.task_id) AS waiting
FROM (SELECT DISTINCT ON (name) name, kind, at, actor, reason
      FROM assay.low_priority_acts ORDER BY name, act_id DESC) AS a
LEFT JOIN assay.pipeline_versions v ON v.name = a.name
LEFT JOIN assay.parked_tasks p ON p.version_id = v.version_id AND p.low
WHERE a.kind = 'paused'
GROUP BY a.name, a.at, a.actor, a.reason
ORDER BY a.name

-- name: status_workers
-- Who holds tasks, or held them when it fell silent; a worker that lives and holds none just now is there too.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
held AS MATERIALIZED (
    SELECT t.last_actor AS worker, assay.lease_end(t.lease_until, t.lease_id) AS lease_until, t.last_moved_at
    FROM (SELECT unnest(b.task_ids) AS task_id FROM assay.claim_batches b
          UNION SELECT p.task_id FROM assay.parked_tasks p) AS member
    JOIN assay.annotation_tasks t ON t.task_id = member.task_id
    WHERE t.state = 'processing'
),
living AS (
    SELECT l.owner AS worker, min(l.started_at) AS started_at, max(l.lease_until) AS lease_until
    FROM assay.leases l, clock
    WHERE l.ended_at IS NULL AND l.lease_until >= clock.now
    GROUP BY l.owner
),
holding AS (
    SELECT h.worker, count(*) FILTER (WHERE h.lease_until >= clock.now) AS live,
           count(*) FILTER (WHERE h.lease_until < clock.now) AS expired,
           min(h.last_moved_at) AS oldest_claim, max(h.lease_until) AS lease_until
    FROM held h, clock
    GROUP BY h.worker
)
SELECT worker, coalesce(h.live, 0) AS live, coalesce(h.expired, 0) AS expired, h.oldest_claim, l.started_at,
       greatest(h.lease_until, l.lease_until) AS lease_until
FROM holding h
FULL JOIN living l USING (worker)
ORDER BY worker

-- name: status_accounts
-- Vendor accounts: limits and where they are known from, the pace, the breaker.
SELECT a.account, a.breaker_state, a.opened_at, a.open_reason, coalesce(a.open_until, a.probe_until) AS next_probe_at,
       a.prober, a.times_opened, a.closed_at, a.requests_per_minute, a.tokens_per_minute, a.limits_source,
       a.limits_seen_at, a.permitted_per_minute, a.cuts, a.cut_at,
       CASE WHEN a.hold_until > clock.now THEN a.hold_until END AS held_until, a.changed_at
FROM assay.vendor_accounts a
CROSS JOIN (SELECT assay.assay_now() AS now OFFSET 0) AS clock
ORDER BY a.account

-- name: status_hour_outcomes
-- The calls of the last hour by version, outcome and code. Call ids follow the time but for the length of a
-- transaction: the primary key leads to the first of them.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now)
SELECT c.version_id, c.outcome, c.code, count(*) AS calls, coalesce(sum(c.cost), 0) AS cost,
       count(*) FILTER (WHERE c.billed AND c.cost IS NULL) AS cost_unknown
FROM assay.calls c
WHERE c.call_id > coalesce((SELECT o.call_id FROM assay.calls o
                            WHERE o.recorded_at < (SELECT now FROM clock) - interval '65 minutes'
                            ORDER BY o.call_id DESC LIMIT 1), 0)
  AND c.recorded_at >= (SELECT now FROM clock) - interval '1 hour'
GROUP BY c.version_id, c.outcome, c.code
ORDER BY c.version_id, count(*) DESC, c.outcome, c.code

-- name: status_hour
-- The last hour in figures, by version; latencies are those of calls that were answered.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now)
SELECT c.version_id, count(*) AS calls, coalesce(sum(c.cost), 0) AS cost,
       coalesce(sum(c.input_tokens), 0)::int8 AS input_tokens,
       coalesce(sum(c.cached_tokens), 0)::int8 AS cached_tokens,
       coalesce(sum(c.output_tokens), 0)::int8 AS output_tokens,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY c.latency_ms)
           FILTER (WHERE c.outcome IN ('accepted', 'rejected')) AS p50_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY c.latency_ms)
           FILTER (WHERE c.outcome IN ('accepted', 'rejected')) AS p95_ms
FROM assay.calls c
WHERE c.call_id > coalesce((SELECT o.call_id FROM assay.calls o
                            WHERE o.recorded_at < (SELECT now FROM clock) - interval '65 minutes'
                            ORDER BY o.call_id DESC LIMIT 1), 0)
  AND c.recorded_at >= (SELECT now FROM clock) - interval '1 hour'
GROUP BY c.version_id

-- name: status_dead_letters
-- Dead letters that nobody has taken on, by version and code.
SELECT version_id, error_code AS reason, count(*) AS count
FROM assay.dead_letters
WHERE state = 'open'
GROUP BY version_id, error_code
ORDER BY version_id, count(*) DESC, error_code

-- name: status_reviews
-- Open review items by version and reason.
SELECT version_id, reason, count(*) AS count
FROM assay.review_items
WHERE state = 'open'
GROUP BY version_id, reason
ORDER BY version_id, count(*) DESC, reason

-- name: status_calls
-- Calls and cost by version. What lost calls are charged at, their reserve, is told apart: nobody billed it yet.
SELECT version_id, count(*) AS calls, count(*) FILTER (WHERE pass_number = 2) AS corrections,
       count(*) FILTER (WHERE outcome = 'failed') AS failed,
       count(*) FILTER (WHERE outcome IN ('outcome_unknown', 'lease_lost')) AS lost,
       coalesce(sum(cost) FILTER (WHERE outcome <> 'outcome_unknown'), 0) AS cost,
       coalesce(sum(cost) FILTER (WHERE outcome = 'outcome_unknown'), 0) AS reserved,
       count(*) FILTER (WHERE cost IS NULL AND billed) AS cost_unknown
FROM assay.calls
GROUP BY version_id

-- name: status_sources
-- Per source, version and partition: how far it has come. `inputs` first came from this source.
SELECT s.source_id, s.name AS source, s.kind, left(s.fingerprint, 12) AS fingerprint, s.mapping,
       s.total, s.first_read_at, v.name AS pipeline, v.pipeline_version, v.label AS version_label,
       c.partition_no AS partition, c.committed_offset, c.updated_at, coalesce(i.inputs, 0) AS inputs,
       coalesce(x.malformed, 0) AS malformed, coalesce(x.conflicts, 0) AS conflicts,
       coalesce(d.duplicates, 0) AS duplicates
FROM assay.sources s
LEFT JOIN assay.source_checkpoints c USING (source_id)
LEFT JOIN assay.pipeline_versions v USING (version_id)
LEFT JOIN (SELECT source_id, count(*) AS inputs FROM assay.inputs GROUP BY source_id) i USING (source_id)
LEFT JOIN (
    SELECT source_id,
           count(*) FILTER (WHERE error_code = 'input_schema_invalid') AS malformed,
           count(*) FILTER (WHERE error_code = 'input_version_conflicts_with_content') AS conflicts
    FROM assay.isolated_records WHERE state = 'open' GROUP BY source_id) x USING (source_id)
LEFT JOIN (
    SELECT source_id, count(*) AS duplicates FROM assay.source_duplicates GROUP BY source_id) d
    USING (source_id)
ORDER BY s.source_id, v.name, c.version_id, c.partition_no

-- name: status_isolated
-- Open isolated records by code and type.
SELECT error_code, error_type, count(*) AS count
FROM assay.isolated_records
WHERE state = 'open'
GROUP BY error_code, error_type
ORDER BY count(*) DESC, error_code, error_type

-- name: status_outbox
-- How many events wait to be published, and since when; what the sink refuses; how many were delivered of which
-- a receipt is left; who publishes where to, and how many of the 64 buckets each holds.
SELECT count(e.outbox_id) AS unpublished, min(e.created_at) AS oldest_unpublished,
       (SELECT count(*) FROM assay.outbox_failures) AS refused,
       (SELECT min(f.first_failed_at) FROM assay.outbox_failures f) AS refused_since,
       (SELECT count(*) FROM assay.outbox_parked) AS parked,
       r.published, r.last_published_at,
       coalesce((
           SELECT jsonb_agg(jsonb_build_object(
                      'publisher', p.publisher, 'sink', p.sink, 'started_at', p.started_at,
                      'buckets', (SELECT count(*) FROM assay.outbox_buckets b WHERE b.owner = p.publisher))
                  ORDER BY p.publisher)
           FROM assay.outbox_publishers p
           WHERE p.lease_until > clock.now), '[]') AS publishers,
       count(e.outbox_id) + r.published AS events
FROM (SELECT assay.assay_now() AS now OFFSET 0) AS clock
CROSS JOIN (SELECT count(*) AS published, max(published_at) AS last_published_at FROM assay.outbox_receipts) AS r
LEFT JOIN assay.outbox_events e ON true
GROUP BY clock.now, r.published, r.last_published_at

-- name: status_database
-- What this database is, its size and its clock.
SELECT current_database()::text AS name, pg_database_size(current_database()) AS bytes,
       current_setting('server_version') AS server_version, i.kind, i.restore_epoch, i.created_at,
       assay.assay_now() AS now
FROM assay.instance i

-- name: status_results
-- Results by line.
SELECT name AS pipeline, count(*) AS results FROM assay.results GROUP BY name ORDER BY name

-- name: applied_migrations
-- Migrations that were applied here.
SELECT version, name, applied_at FROM public.assay_migrations ORDER BY version

-- name: has_migrations
-- Whether anything was ever migrated here.
SELECT to_regclass('public.assay_migrations') IS NOT NULL AS there
