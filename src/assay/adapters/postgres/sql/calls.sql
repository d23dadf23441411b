-- The calls of one version: what became of them, and how long they took.

-- name: call_outcomes
-- How often a pass ended in which way; rejected passes carry the boundary's code, failed ones the provider's.
SELECT pass_number, outcome, code, count(*) AS calls
FROM assay.calls
WHERE version_id = %(version_id)s
GROUP BY pass_number, outcome, code
ORDER BY pass_number, calls DESC, outcome, code

-- name: call_times
-- Milliseconds of the answered calls, half of them and 19 in 20 within the given figure; tokens written.
SELECT count(latency_ms) AS answered,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY latency_ms) AS median_ms,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY latency_ms) AS p95_ms,
       coalesce(sum(output_tokens), 0)::bigint AS output_tokens
FROM assay.calls
WHERE version_id = %(version_id)s AND outcome IN ('accepted', 'rejected')
