-- Invariants of money, and of the log of pipeline versions.

-- name: spend_is_what_the_ledger_says
-- What was spent per version and day is what the calls of that day cost.
SELECT 'version ' || coalesce(s.version_id, c.version_id) || ', day ' || coalesce(s.day, c.day), NULL::int8
FROM (
    SELECT version_id, day, sum(cost) AS cost, sum(calls) AS calls, sum(calls_unknown) AS unknown
    FROM assay.spend GROUP BY version_id, day
) s
FULL JOIN (
    SELECT version_id, (recorded_at AT TIME ZONE 'UTC')::date AS day, coalesce(sum(cost), 0) AS cost,
           count(*) AS calls, count(*) FILTER (WHERE billed AND cost IS NULL) AS unknown
    FROM assay.calls GROUP BY 1, 2
) c ON c.version_id = s.version_id AND c.day = s.day
WHERE (coalesce(s.cost, 0), coalesce(s.calls, 0), coalesce(s.unknown, 0))
      IS DISTINCT FROM (coalesce(c.cost, 0), coalesce(c.calls, 0), coalesce(c.unknown, 0))

-- name: cap_is_its_last_change
-- A cap is what the last change of it says.
SELECT 'cap per ' || coalesce(b.kind, last.kind) || ' of ' || coalesce(b.name, last.name), NULL::int8
FROM assay.budgets b
FULL JOIN (
    SELECT DISTINCT ON (name, kind) name, kind, cap, currency
    FROM assay.budget_changes ORDER BY name, kind, change_id DESC
) last ON last.name = b.name AND last.kind = b.kind
WHERE b.cap IS DISTINCT FROM last.cap OR (b.cap IS NOT NULL AND b.currency IS DISTINCT FROM last.currency)

-- name: version_is_held_by_one_stop
-- A version is held by one stop at most.
SELECT 'version ' || version_id, NULL::int8
FROM assay.version_stops WHERE cleared_at IS NULL
GROUP BY version_id HAVING count(*) > 1

-- name: stop_is_in_the_log
-- Every stop of a version, and its end, is in the version's log.
SELECT 'stop ' || s.stop_id || ' of version ' || s.version_id, NULL::int8
FROM assay.version_stops s
LEFT JOIN (
    SELECT version_id, detail ->> 'stop_id' AS stop_id, count(*) FILTER (WHERE kind = 'stopped') AS begun,
           count(*) FILTER (WHERE kind = 'resumed') AS ended
    FROM assay.version_events WHERE kind IN ('stopped', 'resumed') GROUP BY 1, 2
) e ON e.version_id = s.version_id AND e.stop_id = s.stop_id::text
WHERE (e.begun, e.ended) IS DISTINCT FROM (1::int8, CASE WHEN s.cleared_at IS NULL THEN 0 ELSE 1 END::int8)

-- name: version_has_one_baseline_model
-- Of the models that a version's vendor reported one is the baseline, the first.
SELECT 'version ' || version_id, NULL::int8
FROM assay.version_models
GROUP BY version_id
HAVING count(*) FILTER (WHERE baseline) <> 1
    OR min(first_seen_at) FILTER (WHERE baseline) > min(first_seen_at)

-- name: changed_model_is_in_the_log
-- Every model but the baseline has its event.
SELECT 'model ' || m.model || ' of version ' || m.version_id, NULL::int8
FROM assay.version_models m
WHERE NOT m.baseline
  AND NOT EXISTS (
      SELECT FROM assay.version_events e
      WHERE e.version_id = m.version_id AND e.kind = 'model_changed' AND e.detail ->> 'new' = m.model)

-- name: approval_is_in_the_log
-- Every approval, and its end, is in the version's log.
SELECT 'approval ' || a.approval_id || ' of version ' || a.version_id, NULL::int8
FROM assay.version_approvals a
LEFT JOIN (
    SELECT version_id, detail ->> 'approval_id' AS approval_id, count(*) FILTER (WHERE kind = 'approved') AS given,
           count(*) FILTER (WHERE kind = 'approval_revoked') AS revoked
    FROM assay.version_events WHERE kind IN ('approved', 'approval_revoked') GROUP BY 1, 2
) e ON e.version_id = a.version_id AND e.approval_id = a.approval_id::text
WHERE (e.given, e.revoked) IS DISTINCT FROM (1::int8, CASE WHEN a.revoked_at IS NULL THEN 0 ELSE 1 END::int8)
