-- Caps, what was spent, and what workers hold of what is left. A grant is one short transaction: lock the
-- pipeline's reservations · grant. The lock stands in its own statement: the snapshot that adds up is then taken
-- after the commit of whoever had it before.

-- name: budget_caps
-- Caps of a pipeline.
SELECT kind, cap, currency FROM assay.budgets WHERE name = %(name)b::text

-- name: budget_lock
-- One grant at a time per pipeline.
SELECT pg_advisory_xact_lock(%(lock_class)b::int4, hashtext(%(name)b::text))

-- name: budget_grant
-- Hold what cannot be given back, and of what is wanted as much as the caps leave, but nothing below one step:
-- what the ledger says, unknown costs at their version's reserve, plus what all workers hold, is never above a
-- cap by a grant. A reservation that has ended counts no more.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
caps AS MATERIALIZED (
    SELECT min(cap) FILTER (WHERE kind = 'day') AS day, min(cap) FILTER (WHERE kind = 'total') AS total
    FROM assay.budgets WHERE name = %(name)b::text
),
spent AS MATERIALIZED (
    SELECT coalesce(sum(s.cost + s.calls_unknown * v.call_reserve), 0) AS total,
           coalesce(sum(s.cost + s.calls_unknown * v.call_reserve)
                    FILTER (WHERE s.day = (clock.now AT TIME ZONE 'UTC')::date), 0) AS today
    FROM clock
    JOIN assay.pipeline_versions v ON v.name = %(name)b::text
    JOIN assay.spend s ON s.version_id = v.version_id
),
others AS MATERIALIZED (
    SELECT coalesce(sum(r.amount), 0) AS held
    FROM assay.spend_reservations r, clock
    WHERE r.name = %(name)b::text AND r.worker <> %(worker)b::text AND r.expires_at > clock.now
),
-- No cap is above every amount.
room AS MATERIALIZED (
    SELECT greatest(least(caps.day - spent.today, caps.total - spent.total)
                    - others.held - %(held)b::numeric, 0) AS free
    FROM caps, spent, others
),
granted AS (
    INSERT INTO assay.spend_reservations AS r (name, worker, amount, renewed_at, expires_at)
    SELECT %(name)b::text, %(worker)b::text,
           %(held)b::numeric + CASE WHEN least(%(wanted)b::numeric, room.free) >= %(step)b::numeric
               THEN least(%(wanted)b::numeric, room.free) ELSE 0 END,
           clock.now, clock.now + make_interval(secs => %(seconds)b::float8)
    FROM clock, room
    ON CONFLICT (name, worker) DO UPDATE SET
        amount = excluded.amount, renewed_at = excluded.renewed_at, expires_at = excluded.expires_at
    RETURNING r.amount
)
SELECT spent.today, spent.total, others.held, granted.amount FROM spent, others, granted

-- name: budget_raise_reserve
-- What a take-over charges for a lost call of a version, at least; nothing is written where it is that much.
WITH raised AS (
    UPDATE assay.pipeline_versions SET call_reserve = %(reserve)b::numeric
    WHERE version_id = %(version_id)b::int4 AND call_reserve < %(reserve)b::numeric
)
SELECT greatest(call_reserve, %(reserve)b::numeric)
FROM assay.pipeline_versions WHERE version_id = %(version_id)b::int4

-- name: budget_longest_text
-- Sealed bytes of the longest text that a claim may find parked or abandoned; its length is read, not the text.
WITH waiting AS MATERIALIZED (
    SELECT p.task_id FROM assay.parked_tasks p WHERE p.version_id = %(version_id)b::int4
    UNION
    SELECT unnest(b.task_ids) FROM assay.claim_batches b WHERE b.version_id = %(version_id)b::int4
)
SELECT coalesce(max(octet_length(x.ciphertext)), 0)
FROM waiting
JOIN assay.annotation_tasks t ON t.task_id = waiting.task_id
JOIN assay_vault.texts x ON x.text_ref = t.encrypted_text_ref
WHERE t.state IN ('retry_scheduled', 'processing')

-- name: budget_forget_ended
-- Reservations that ended count no more: whoever held them gave them back, or died.
DELETE FROM assay.spend_reservations
WHERE name = %(name)b::text AND worker <> %(worker)b::text AND expires_at <= assay.assay_now()

-- name: budget_release
-- A worker gives everything back.
DELETE FROM assay.spend_reservations WHERE name = %(name)b::text AND worker = %(worker)b::text

-- name: budget_set
-- Set a cap, and say so in the log of changes.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
made AS (
    INSERT INTO assay.budgets AS b (name, kind, cap, currency, set_at, set_by)
    SELECT %(name)s::text, %(kind)s::text, %(cap)s::numeric, %(currency)s::text, clock.now, %(actor)s::text
    FROM clock
    ON CONFLICT (name, kind) DO UPDATE SET
        cap = excluded.cap, currency = excluded.currency, set_at = excluded.set_at, set_by = excluded.set_by
    RETURNING b.name, b.kind, b.cap, b.currency, b.set_at, b.set_by
)
INSERT INTO assay.budget_changes (name, kind, cap, currency, changed_at, changed_by)
SELECT name, kind, cap, currency, set_at, set_by FROM made

-- name: budget_other_currency
-- The currency of a pipeline's other cap, where it is another one.
SELECT currency FROM assay.budgets
WHERE name = %(name)s::text AND kind <> ALL (%(kinds)s::text[]) AND currency <> %(currency)s::text

-- name: budget_clear
-- Take a cap away, and say so in the log of changes.
WITH gone AS (
    DELETE FROM assay.budgets WHERE name = %(name)s::text AND kind = %(kind)s::text
    RETURNING name, kind, currency
)
INSERT INTO assay.budget_changes (name, kind, cap, currency, changed_at, changed_by)
SELECT name, kind, NULL, currency, assay.assay_now(), %(actor)s::text FROM gone
RETURNING change_id

-- name: budget_pipelines
-- Pipelines with their caps, and what workers hold of them. Also a pipeline that has a cap and never ran.
SELECT n.name, d.cap AS day_cap, t.cap AS total_cap, coalesce(d.currency, t.currency) AS currency,
       d.set_by AS day_set_by, d.set_at AS day_set_at, t.set_by AS total_set_by, t.set_at AS total_set_at,
       coalesce(r.amount, 0) AS reserved, coalesce(r.workers, 0) AS workers
FROM (SELECT name FROM assay.pipeline_versions UNION SELECT name FROM assay.budgets) AS n
LEFT JOIN assay.budgets d ON d.name = n.name AND d.kind = 'day'
LEFT JOIN assay.budgets t ON t.name = n.name AND t.kind = 'total'
LEFT JOIN (
    SELECT name, sum(amount) AS amount, count(*) AS workers
    FROM assay.spend_reservations
    CROSS JOIN (SELECT assay.assay_now() AS now OFFSET 0) AS clock
    WHERE expires_at > clock.now GROUP BY name
) r ON r.name = n.name
WHERE %(name)s::text IS NULL OR n.name = %(name)s::text
ORDER BY n.name

-- name: budget_versions
-- Per version: what its calls cost today (UTC) and in total, and those whose cost nobody told.
SELECT v.name, v.pipeline_version, v.label AS version_label, v.call_reserve,
       coalesce(sum(s.cost) FILTER (WHERE s.day = today.day), 0) AS spent_today,
       coalesce(sum(s.cost), 0) AS spent,
       coalesce(sum(s.calls), 0)::int8 AS calls,
       coalesce(sum(s.calls_unknown) FILTER (WHERE s.day = today.day), 0)::int8 AS calls_unknown_today,
       coalesce(sum(s.calls_unknown), 0)::int8 AS calls_unknown
FROM assay.pipeline_versions v
CROSS JOIN (SELECT (assay.assay_now() AT TIME ZONE 'UTC')::date AS day OFFSET 0) AS today
LEFT JOIN assay.spend s ON s.version_id = v.version_id
WHERE %(name)s::text IS NULL OR v.name = %(name)s::text
GROUP BY v.version_id
ORDER BY v.name, v.version_id
