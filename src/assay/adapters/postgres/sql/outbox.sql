-- The outbox: buckets are shared among publishers, events are read in order, delivered ones become receipts.

-- name: outbox_lock_shares
-- Publishers take and give buckets one after the other. In a statement of its own: what follows sees what the
-- one before has written.
SELECT pg_advisory_xact_lock(%(lock_class)b::int4, 0)

-- name: outbox_other_sinks
-- Where living publishers send to, if that is somewhere else: then this one must not take part.
SELECT p.publisher, p.sink
FROM assay.outbox_publishers p
CROSS JOIN (SELECT assay.assay_now() AS now OFFSET 0) AS clock
WHERE p.publisher <> %(publisher)b::text AND p.sink <> %(sink)b::text AND p.lease_until > clock.now
ORDER BY p.publisher
LIMIT 1

-- name: outbox_share
-- A publisher's turn: it says that it lives, keeps its fair share, gives the rest back, takes what is free.
-- Shares differ by one at most; who has the larger one goes by name. A bucket whose lease ended but that nobody
-- took is still its owner's. Leases that have most of their time left are not written again.
WITH clock AS MATERIALIZED (
    SELECT now, now + make_interval(secs => %(lease_seconds)b::float8) AS until,
           now + make_interval(secs => %(lease_seconds)b::float8 * 2 / 3) AS fresh
    FROM (SELECT assay.assay_now() AS now OFFSET 0) AS read
),
dead AS (
    DELETE FROM assay.outbox_publishers p USING clock
    WHERE p.lease_until <= clock.now AND p.publisher <> %(publisher)b::text
),
me AS (
    INSERT INTO assay.outbox_publishers AS p (publisher, sink, started_at, lease_until)
    SELECT %(publisher)b::text, %(sink)b::text, clock.now, clock.until FROM clock
    ON CONFLICT (publisher) DO UPDATE SET lease_until = excluded.lease_until
),
others AS MATERIALIZED (
    SELECT count(*) AS living, count(*) FILTER (WHERE p.publisher < %(publisher)b::text) AS before
    FROM assay.outbox_publishers p, clock
    WHERE p.publisher <> %(publisher)b::text AND p.lease_until > clock.now
),
share AS MATERIALIZED (
    SELECT 64 / (o.living + 1) + (o.before < mod(64, o.living + 1))::int AS size FROM others o
),
ranked AS MATERIALIZED (
    SELECT b.bucket, b.lease_until, b.owner IS NOT DISTINCT FROM %(publisher)b::text AS mine,
           row_number() OVER (ORDER BY b.owner IS NOT DISTINCT FROM %(publisher)b::text DESC, b.bucket) AS place
    FROM assay.outbox_buckets b, clock
    WHERE b.owner IS NULL OR b.owner = %(publisher)b::text OR b.lease_until <= clock.now
),
changed AS (
    UPDATE assay.outbox_buckets b
    SET owner = CASE WHEN r.place <= share.size THEN %(publisher)b::text END,
        lease_until = CASE WHEN r.place <= share.size THEN clock.until END,
        revision = b.revision + (NOT r.mine OR r.place > share.size)::int
    FROM ranked r, share, clock
    WHERE b.bucket = r.bucket
      AND ((r.place <= share.size AND (NOT r.mine OR r.lease_until < clock.fresh))
           OR (r.place > share.size AND r.mine))
)
SELECT r.bucket, share.size
FROM share
LEFT JOIN ranked r ON r.place <= share.size

-- name: outbox_leave
-- A publisher that ends gives everything back.
WITH gone AS (DELETE FROM assay.outbox_publishers WHERE publisher = %(publisher)b::text)
UPDATE assay.outbox_buckets SET owner = NULL, lease_until = NULL, revision = revision + 1
WHERE owner = %(publisher)b::text

-- name: outbox_read
-- The next events of this publisher's buckets, oldest first; of each aggregate without a gap: ids of one
-- aggregate are in the order of their commits, since they are drawn under the aggregate's row lock. No cursor:
-- delivered rows are gone, and what a late transaction commits is there at the next read. Aggregates whose
-- first event waits for another try are left out whole. `floors` only spare the scan of what is gone for good,
-- see outbox_floors.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now)
SELECT e.*, b.revision, i.restore_epoch
FROM clock
CROSS JOIN assay.instance i
JOIN assay.outbox_buckets b ON b.owner = %(publisher)b::text AND b.lease_until > clock.now
LEFT JOIN unnest(%(floor_buckets)b::int2[], %(floors)b::int8[]) AS u (bucket, floor) ON u.bucket = b.bucket
CROSS JOIN LATERAL (
    SELECT e.bucket, e.outbox_id, e.event_id, e.aggregate_kind, e.aggregate_id, e.kind, e.revision AS told,
           e.task_id, e.payload::text AS payload, e.created_at, coalesce(f.tries, 0) AS tries
    FROM assay.outbox_events e
    LEFT JOIN assay.outbox_failures f
        ON f.aggregate_kind = e.aggregate_kind AND f.aggregate_id = e.aggregate_id
    WHERE e.bucket = b.bucket AND e.outbox_id > coalesce(u.floor, 0) AND coalesce(f.not_before <= clock.now, true)
    ORDER BY e.outbox_id
    LIMIT %(most_each)b::int8
) AS e
ORDER BY e.outbox_id
LIMIT %(most)b::int8

-- name: outbox_floors
-- Below which id a bucket will never have an event again, so that a read need not pass by deleted rows that an
-- old snapshot keeps. Sound, where a cursor is not: `mark` is an id drawn before a moment at which `mark_xmax` was
-- the next transaction, and all transactions before that have ended by now; so every event up to it is either
-- visible here or gone. Writers of events have a transaction id before they draw one of an event. The new mark is
-- to be paired with the next look's xmax: a sequence is read later than the snapshot of its statement.
SELECT u.bucket,
       CASE WHEN seen.settled THEN greatest(u.floor, least(%(mark)b::int8, (
           SELECT min(e.outbox_id) - 1 FROM assay.outbox_events e
           WHERE e.bucket = u.bucket AND e.outbox_id > u.floor))) ELSE u.floor END,
       CASE WHEN s.is_called THEN s.last_value ELSE 0 END, seen.xmax, seen.settled
FROM unnest(%(floor_buckets)b::int2[], %(floors)b::int8[]) AS u (bucket, floor)
CROSS JOIN assay.outbox_events_outbox_id_seq s
CROSS JOIN (
    SELECT pg_snapshot_xmin(now)::text::int8 >= %(mark_xmax)b::int8 AS settled,
           pg_snapshot_xmax(now)::text::int8 AS xmax
    FROM pg_current_snapshot() AS now
) AS seen

-- name: outbox_record
-- What the sink has leaves the outbox and becomes receipts, in one statement, fenced: a bucket that changed
-- hands since it was read is left to its new owner. Sent twice it changes nothing. The buckets still held.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
held AS MATERIALIZED (
    SELECT b.bucket
    FROM assay.outbox_buckets b
    JOIN unnest(%(held_buckets)b::int2[], %(held_revisions)b::int8[]) AS u (bucket, revision)
        ON u.bucket = b.bucket AND u.revision = b.revision
    WHERE b.owner = %(publisher)b::text
    ORDER BY b.bucket
    FOR NO KEY UPDATE OF b
),
delivered AS MATERIALIZED (
    SELECT u.bucket, u.outbox_id, u.position
    FROM unnest(%(buckets)b::int2[], %(outbox_ids)b::int8[], %(positions)b::text[])
         AS u (bucket, outbox_id, position)
    WHERE u.bucket IN (SELECT h.bucket FROM held h)
),
gone AS (
    DELETE FROM assay.outbox_events e USING delivered d
    WHERE e.bucket = d.bucket AND e.outbox_id = d.outbox_id
    RETURNING e.*, d.position
),
unblocked AS (
    DELETE FROM assay.outbox_failures f USING gone g
    WHERE f.aggregate_kind = g.aggregate_kind AND f.aggregate_id = g.aggregate_id AND f.event_id = g.event_id
),
kept AS (
    INSERT INTO assay.outbox_receipts
        (outbox_id, event_id, aggregate_kind, aggregate_id, kind, revision, task_id, created_at, published_at,
         sink, position)
    SELECT g.outbox_id, g.event_id, g.aggregate_kind, g.aggregate_id, g.kind, g.revision, g.task_id,
           g.created_at, clock.now, %(sink)b::text, g.position
    FROM gone g, clock
    ORDER BY g.outbox_id
)
SELECT h.bucket FROM held h

-- name: outbox_refused
-- Events that the sink refuses: each holds its aggregate back until `not_before`. Fenced like a delivery.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
held AS MATERIALIZED (
    SELECT b.bucket
    FROM assay.outbox_buckets b
    JOIN unnest(%(held_buckets)b::int2[], %(held_revisions)b::int8[]) AS u (bucket, revision)
        ON u.bucket = b.bucket AND u.revision = b.revision
    WHERE b.owner = %(publisher)b::text
    ORDER BY b.bucket
    FOR NO KEY UPDATE OF b
)
INSERT INTO assay.outbox_failures AS f
    (aggregate_kind, aggregate_id, event_id, bucket, outbox_id, kind, revision, reason, tries,
     first_failed_at, last_failed_at, not_before)
SELECT e.aggregate_kind, e.aggregate_id, e.event_id, e.bucket, e.outbox_id, e.kind, e.revision, u.reason, 1,
       clock.now, clock.now, clock.now + make_interval(secs => u.delay)
FROM clock
CROSS JOIN unnest(%(buckets)b::int2[], %(outbox_ids)b::int8[], %(reasons)b::text[], %(delays)b::float8[])
    AS u (bucket, outbox_id, reason, delay)
JOIN held h ON h.bucket = u.bucket
JOIN assay.outbox_events e ON e.bucket = u.bucket AND e.outbox_id = u.outbox_id
ORDER BY e.aggregate_kind, e.aggregate_id
ON CONFLICT (aggregate_kind, aggregate_id) DO UPDATE SET
    event_id = excluded.event_id, outbox_id = excluded.outbox_id, kind = excluded.kind,
    revision = excluded.revision, reason = excluded.reason,
    tries = CASE WHEN f.event_id = excluded.event_id THEN f.tries + 1 ELSE 1 END,
    first_failed_at = CASE WHEN f.event_id = excluded.event_id THEN f.first_failed_at
                      ELSE excluded.first_failed_at END,
    last_failed_at = excluded.last_failed_at, not_before = excluded.not_before

-- name: outbox_backlog
-- How much waits, since when, how many aggregates are held back.
SELECT clock.now, count(e.outbox_id), extract(epoch FROM clock.now - min(e.created_at))::float8,
       (SELECT count(*) FROM assay.outbox_failures)
FROM (SELECT assay.assay_now() AS now OFFSET 0) AS clock
LEFT JOIN assay.outbox_events e ON true
GROUP BY clock.now

-- name: outbox_drained
-- Whether all that was there at that moment is gone, but for aggregates that a refused event holds back.
SELECT NOT EXISTS (
    SELECT FROM assay.outbox_events e
    WHERE e.created_at <= %(created_until)b::timestamptz
      AND NOT EXISTS (
          SELECT FROM assay.outbox_failures f
          WHERE f.aggregate_kind = e.aggregate_kind AND f.aggregate_id = e.aggregate_id
            AND f.not_before > clock.now))
FROM (SELECT assay.assay_now() AS now OFFSET 0) AS clock

-- name: outbox_make_partitions
-- Receipts have a place to go to, today and for some days.
SELECT assay.make_receipt_partitions(%(ahead)b::int4)

-- name: outbox_drop_receipts
-- Whole days of receipts go; what reads them is waited for a short while only.
SELECT assay.drop_receipt_partitions(
    assay.assay_now() - make_interval(secs => %(seconds)s::float8), %(actor)s::text)

-- name: outbox_wait_briefly
-- A lock that is not to be had holds up everybody behind it.
SELECT set_config('lock_timeout', '3s', true)

-- name: outbox_blocked
-- Events that the sink refuses, the longest first, and how many wait behind each.
SELECT f.event_id, f.aggregate_kind, f.aggregate_id, f.kind, f.revision, f.reason, f.tries, f.first_failed_at,
       f.last_failed_at, f.not_before,
       (SELECT count(*) FROM assay.outbox_events e
        WHERE e.bucket = f.bucket AND e.outbox_id > f.outbox_id AND e.aggregate_kind = f.aggregate_kind
          AND e.aggregate_id = f.aggregate_id) AS behind
FROM assay.outbox_failures f
ORDER BY f.first_failed_at, f.outbox_id
LIMIT %(most)s::int8

-- name: outbox_park
-- A person takes a refused event out of the way: it is kept whole, with who and why; its aggregate goes on.
WITH blocked AS MATERIALIZED (
    SELECT f.* FROM assay.outbox_failures f WHERE f.event_id = %(event_id)s::uuid FOR UPDATE
),
unblocked AS (
    DELETE FROM assay.outbox_failures f USING blocked b
    WHERE f.aggregate_kind = b.aggregate_kind AND f.aggregate_id = b.aggregate_id
),
gone AS (
    DELETE FROM assay.outbox_events e USING blocked b
    WHERE e.bucket = b.bucket AND e.outbox_id = b.outbox_id
    RETURNING e.*, b.reason AS failure, b.tries
)
INSERT INTO assay.outbox_parked
    (outbox_id, event_id, aggregate_kind, aggregate_id, kind, revision, task_id, payload, created_at, failure,
     tries, parked_at, parked_by, reason)
SELECT g.outbox_id, g.event_id, g.aggregate_kind, g.aggregate_id, g.kind, g.revision, g.task_id, g.payload,
       g.created_at, g.failure, g.tries, assay.assay_now(), %(actor)s::text, %(reason)s::text
FROM gone g
RETURNING event_id
