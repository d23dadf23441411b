-- Which vault keys wrap what, and rewrapping. Only wrapped keys are touched, never a ciphertext. Rows of texts and
-- raws that stand under a subject's key are passed over: the subject's key is what the vault key wraps.

-- name: vault_keys
-- Every vault key that this database knows.
SELECT kek_id, state FROM assay_vault.keys ORDER BY added_at, kek_id

-- name: current_key
-- The key that new records are sealed under.
SELECT kek_id FROM assay_vault.keys WHERE state = 'current'

-- name: use_first_key
-- Of two first runs with different keys one wins, and the other one hears of it from current_key.
INSERT INTO assay_vault.keys (kek_id, state, added_at, changed_at)
SELECT %(kek_id)s, 'current', clock.now, clock.now
FROM (SELECT assay.assay_now() AS now OFFSET 0) AS clock
WHERE NOT EXISTS (SELECT FROM assay_vault.keys)
ON CONFLICT DO NOTHING

-- name: replace_current_key
-- The first half of a change: the old key may still be written under.
UPDATE assay_vault.keys SET state = 'previous', changed_at = greatest(assay.assay_now(), added_at)
WHERE state = 'current' AND kek_id <> %(kek_id)s

-- name: add_current_key
-- The second half, in the same transaction.
INSERT INTO assay_vault.keys (kek_id, state, added_at, changed_at)
SELECT %(kek_id)s, 'current', clock.now, clock.now
FROM (SELECT assay.assay_now() AS now OFFSET 0) AS clock
ON CONFLICT (kek_id) DO NOTHING

-- name: writers_done
-- Alone: everybody who was writing under some key has committed, nobody writes meanwhile. assay_vault.guard_kek
-- takes the same lock shared.
SELECT pg_advisory_xact_lock(1634956009)

-- name: retire_key
-- From here on the database refuses rows under this key.
UPDATE assay_vault.keys SET state = 'retired', changed_at = greatest(assay.assay_now(), added_at)
WHERE kek_id = %(kek_id)s AND state = 'previous'

-- name: only_rotation
-- One rotation at a time; the session holds the lock.
SELECT pg_advisory_lock(1634956010)

-- name: rows_by_key
-- How many keys each vault key wraps.
SELECT kek_id, sum(texts)::bigint, sum(raws)::bigint, sum(subject_keys)::bigint
FROM (
    SELECT x.kek_id, count(*) AS texts, 0 AS raws, 0 AS subject_keys
    FROM assay_vault.texts x WHERE x.subject_id IS NULL GROUP BY x.kek_id
    UNION ALL
    SELECT w.kek_id, 0, count(*), 0
    FROM assay_vault.raws w WHERE w.subject_id IS NULL GROUP BY w.kek_id
    UNION ALL
    SELECT s.kek_id, 0, 0, count(*) FROM assay_vault.subject_keys s GROUP BY s.kek_id
) AS counted
GROUP BY kek_id
ORDER BY kek_id

-- name: sample_of_key
-- A few wrapped keys of each table under one vault key, to try whether they open.
(SELECT x.wrapped_key FROM assay_vault.texts x
 WHERE x.subject_id IS NULL AND x.kek_id = %(kek_id)s ORDER BY x.text_ref DESC LIMIT 100)
UNION ALL
(SELECT w.wrapped_key FROM assay_vault.raws w
 WHERE w.subject_id IS NULL AND w.kek_id = %(kek_id)s ORDER BY w.raw_ref DESC LIMIT 100)
UNION ALL
(SELECT s.wrapped_key FROM assay_vault.subject_keys s WHERE s.kek_id = %(kek_id)s LIMIT 100)

-- name: window_texts
-- The next rows in key order; wrapped_key only where it is wrapped under another key than this one.
SELECT x.text_ref, x.kek_id,
       CASE WHEN x.subject_id IS NULL AND x.kek_id <> %(kek_id)s THEN x.wrapped_key END
FROM assay_vault.texts x
WHERE x.text_ref > coalesce(%(after)s::bigint, 0)
ORDER BY x.text_ref
LIMIT %(size)s

-- name: rewrap_texts
-- What changed or vanished since it was read is left alone. Locked in key order.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)b::bigint[], %(wrapped)b::bytea[], %(fresh)b::bytea[])
        AS u (text_ref, wrapped, fresh)
),
ours AS MATERIALIZED (
    SELECT x.text_ref, g.fresh
    FROM given g
    JOIN assay_vault.texts x ON x.text_ref = g.text_ref AND x.wrapped_key = g.wrapped
    ORDER BY x.text_ref
    FOR UPDATE OF x
)
UPDATE assay_vault.texts x SET kek_id = %(kek_id)b::text, wrapped_key = o.fresh
FROM ours o
WHERE x.text_ref = o.text_ref

-- name: window_raws
-- As window_texts, for isolated bytes.
SELECT w.raw_ref, w.kek_id,
       CASE WHEN w.subject_id IS NULL AND w.kek_id <> %(kek_id)s THEN w.wrapped_key END
FROM assay_vault.raws w
WHERE w.raw_ref > coalesce(%(after)s::bigint, 0)
ORDER BY w.raw_ref
LIMIT %(size)s

-- name: rewrap_raws
-- As rewrap_texts, for isolated bytes.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)b::bigint[], %(wrapped)b::bytea[], %(fresh)b::bytea[])
        AS u (raw_ref, wrapped, fresh)
),
ours AS MATERIALIZED (
    SELECT w.raw_ref, g.fresh
    FROM given g
    JOIN assay_vault.raws w ON w.raw_ref = g.raw_ref AND w.wrapped_key = g.wrapped
    ORDER BY w.raw_ref
    FOR UPDATE OF w
)
UPDATE assay_vault.raws w SET kek_id = %(kek_id)b::text, wrapped_key = o.fresh
FROM ours o
WHERE w.raw_ref = o.raw_ref

-- name: window_subject_keys
-- As window_texts, for subjects' keys.
SELECT s.subject_id, s.kek_id, CASE WHEN s.kek_id <> %(kek_id)s THEN s.wrapped_key END
FROM assay_vault.subject_keys s
WHERE %(after)s::text IS NULL OR s.subject_id > %(after)s::text COLLATE "C"
ORDER BY s.subject_id
LIMIT %(size)s

-- name: rewrap_subject_keys
-- As rewrap_texts, for subjects' keys.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)b::text[], %(wrapped)b::bytea[], %(fresh)b::bytea[])
        AS u (subject_id, wrapped, fresh)
),
ours AS MATERIALIZED (
    SELECT s.subject_id, g.fresh
    FROM given g
    JOIN assay_vault.subject_keys s ON s.subject_id = g.subject_id COLLATE "C" AND s.wrapped_key = g.wrapped
    ORDER BY s.subject_id
    FOR UPDATE OF s
)
UPDATE assay_vault.subject_keys s SET kek_id = %(kek_id)b::text, wrapped_key = o.fresh
FROM ours o
WHERE s.subject_id = o.subject_id
