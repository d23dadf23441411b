-- Claim first, then call. One READ COMMITTED transaction per batch:
--   claim_read (what is there?) · claim_register_inputs · claim_tasks · claim_read again for the offers that
--   were not won · claim_batch. The second read must be its own statement: a row committed by somebody else
--   while ours waited is invisible to the statement that waited. Callers send each key once per batch.
-- Locks are taken in key order everywhere (leases, then inputs, then tasks), so that two batches in opposite
-- orders queue instead of deadlocking.
-- Rows are looked up by key in LATERAL subqueries with OFFSET 0: one index probe per offered row is the only
-- plan that this leaves, whatever the statistics of a young table say (measured: 74 us per row where the
-- planner turned the loop around, 2 us as it is).

-- name: claim_read
-- The state of the offered keys, in the order offered. Reads only. A task in processing is claimable once its
-- lease has run out, a parked one once it is due, but for a replay's: that is claimed from the work list alone,
-- with the response that it may be judged by; `lease_to_end` is then the lease that end_leases has to end before.
SELECT
    i.input_sha256,
    t.state::text,
    (t.state = 'processing' AND t.lease_end < clock.now)
        OR (t.state = 'retry_scheduled' AND t.not_before <= clock.now AND t.replay_id IS NULL) AS claimable,
    CASE WHEN t.state = 'processing'
         THEN greatest(extract(epoch FROM t.lease_end - clock.now), 0)::float8 ELSE 0 END AS wait_seconds,
    t.attempt_id,
    CASE WHEN t.state = 'processing' AND t.lease_end < clock.now THEN t.lease_id END AS lease_to_end,
    i.source_id, i.partition_no, i.source_offset
FROM unnest(%(record_ids)b::text[], %(input_versions)b::int4[])
     WITH ORDINALITY AS offered (record_id, input_version, position)
CROSS JOIN (SELECT assay.assay_now() AS now OFFSET 0) AS clock
LEFT JOIN LATERAL (
    SELECT i.input_sha256, i.source_id, i.partition_no, i.source_offset
    FROM assay.inputs i
    WHERE i.record_id = offered.record_id AND i.input_version = offered.input_version
    OFFSET 0
) AS i ON true
LEFT JOIN LATERAL (
    SELECT t.state, t.not_before, t.attempt_id, t.lease_id, t.replay_id,
           assay.lease_end(t.lease_until, t.lease_id) AS lease_end
    FROM assay.annotation_tasks t
    WHERE t.record_id = offered.record_id AND t.input_version = offered.input_version
      AND t.version_id = %(version_id)b::int4
    OFFSET 0
) AS t ON true
ORDER BY offered.position

-- name: start_lease
-- A worker's lease, the clock of all that it will hold.
INSERT INTO assay.leases (owner, started_at, lease_until)
SELECT %(actor)b::text, clock.now, clock.now + make_interval(secs => %(lease_seconds)b::float8)
FROM (SELECT assay.assay_now() AS now OFFSET 0) AS clock
RETURNING lease_id

-- name: end_leases
-- Leases that have run out end here, before their tasks are taken over. The row lock makes the two orders
-- clear: a renewal that came first keeps the lease, one that comes later finds it ended.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
ending AS MATERIALIZED (
    SELECT l.lease_id FROM assay.leases l, clock
    WHERE l.lease_id = ANY (%(lease_ids)b::int8[]) AND l.ended_at IS NULL AND l.lease_until < clock.now
    ORDER BY l.lease_id
    FOR UPDATE OF l
)
UPDATE assay.leases l SET ended_at = clock.now
FROM ending, clock
WHERE l.lease_id = ending.lease_id

-- name: release_lease
-- A worker that stops ends its own lease: whatever it still holds is free once the claim's promise is over.
UPDATE assay.leases SET ended_at = assay.assay_now()
WHERE lease_id = %(lease_id)b::int8 AND ended_at IS NULL

-- name: claim_note_duplicates
-- Positions whose record is known from another position: their destination is that input.
INSERT INTO assay.source_duplicates
    (source_id, partition_no, source_offset, record_id, input_version, seen_at)
SELECT %(source_id)b::int4, u.partition_no, u.source_offset, u.record_id, u.input_version, assay.assay_now()
FROM unnest(%(partitions)b::int4[], %(offsets)b::int8[], %(record_ids)b::text[], %(input_versions)b::int4[])
     AS u (partition_no, source_offset, record_id, input_version)
ORDER BY u.partition_no, u.source_offset
ON CONFLICT (source_id, partition_no, source_offset) DO NOTHING

-- name: claim_register_inputs
-- The first content of an identity is stored, encrypted; later offers of the identity change nothing.
-- `attributes` is NULL, or an object of strings (and the message's time in milliseconds). Returns the key and text_ref of each input that this statement
-- stored. Callers send the keys in order.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
offered AS MATERIALIZED (
    SELECT u.*, u.attributes_text::jsonb AS attributes FROM unnest(
        %(record_ids)b::text[], %(input_versions)b::int4[], %(sha256s)b::bytea[],
        %(partitions)b::int4[], %(offsets)b::int8[], %(lines)b::int8[], %(attributes)b::text[],
        %(wrapped_keys)b::bytea[], %(ciphertexts)b::bytea[]
    ) AS u (record_id, input_version, input_sha256, partition_no, source_offset, source_line,
            attributes_text, wrapped_key, ciphertext)
),
registered AS (
    INSERT INTO assay.inputs
        (record_id, input_version, input_sha256, encrypted_text_ref, source_id, partition_no, source_offset,
         source_line, document_type, customer, subject_id, language, sensitivity, jurisdiction,
         schema_version, ocr_version, priority, correlation_id, trace_parent, document_ref, source_name,
         source_timestamp, first_seen_at)
    SELECT o.record_id, o.input_version, o.input_sha256, nextval('assay_vault.refs'),
           %(source_id)b::int4, o.partition_no, o.source_offset, o.source_line,
           o.attributes ->> 'document_type', o.attributes ->> 'customer', o.attributes ->> 'subject_id',
           o.attributes ->> 'language', o.attributes ->> 'sensitivity', o.attributes ->> 'jurisdiction',
           o.attributes ->> 'schema_version', o.attributes ->> 'ocr_version', o.attributes ->> 'priority',
           o.attributes ->> 'correlation_id', o.attributes ->> 'trace_parent', o.attributes ->> 'document_ref',
           o.attributes ->> 'source', to_timestamp((o.attributes ->> 'source_timestamp')::float8 / 1000),
           clock.now
    FROM offered o, clock
    ORDER BY o.record_id COLLATE "C", o.input_version
    ON CONFLICT (record_id, input_version) DO NOTHING
    RETURNING record_id, input_version, encrypted_text_ref, subject_id
),
vaulted AS (
    INSERT INTO assay_vault.texts (text_ref, subject_id, kek_id, wrapped_key, ciphertext)
    SELECT r.encrypted_text_ref, r.subject_id, %(kek_id)b::text, o.wrapped_key, o.ciphertext
    FROM registered r
    JOIN offered o ON o.record_id = r.record_id AND o.input_version = r.input_version
)
SELECT record_id, input_version, encrypted_text_ref FROM registered

-- name: claim_tasks
-- Insert or take over. Wins need equal content: the join to inputs refuses another hash, the WHERE refuses it
-- once more for an existing task. The clock is read once, before any wait for a lock, which makes the test of
-- the other lease conservative; a lease row that has not been ended still protects its tasks.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now,
                                   assay.last_outage(%(account)b::text) AS outage_until),
offered AS MATERIALIZED (
    SELECT * FROM unnest(
        %(record_ids)b::text[], %(input_versions)b::int4[], %(sha256s)b::bytea[], %(attempt_ids)b::uuid[],
        %(quality_probabilities)b::float4[], %(quality_selected)b::bool[]
    ) AS u (record_id, input_version, input_sha256, attempt_id, quality_probability, quality_selected)
)
INSERT INTO assay.annotation_tasks AS t
    (record_id, input_version, version_id, input_sha256, encrypted_text_ref, state, attempt_id, lease_until,
     lease_id, attempts, quality_probability, quality_selected, first_claimed_at,
     moves, last_move, last_moved_at, last_actor, last_reason)
SELECT o.record_id, o.input_version, %(version_id)b::int4, o.input_sha256, i.encrypted_text_ref, 'processing',
       o.attempt_id, clock.now + make_interval(secs => %(lease_seconds)b::float8), %(lease_id)b::int8,
       1, o.quality_probability, o.quality_selected, clock.now, 1, 'claim', clock.now, %(actor)b::text,
       'offered'
FROM offered o
CROSS JOIN clock
CROSS JOIN LATERAL (
    SELECT i.encrypted_text_ref
    FROM assay.inputs i
    WHERE i.record_id = o.record_id AND i.input_version = o.input_version AND i.input_sha256 = o.input_sha256
    OFFSET 0
) AS i
ORDER BY o.record_id COLLATE "C", o.input_version
ON CONFLICT (record_id, input_version, version_id) DO UPDATE SET
    state = 'processing',
    attempt_id = excluded.attempt_id,
    lease_until = excluded.lease_until,
    lease_id = excluded.lease_id,
    not_before = NULL,
    aged_seconds = t.aged_seconds + CASE WHEN t.state = 'retry_scheduled' THEN assay.time_spent(
        t.last_moved_at, least(t.not_before, excluded.last_moved_at), %(account)b::text,
        (SELECT outage_until FROM clock)) ELSE 0 END,
    attempts = t.attempts + CASE WHEN t.state = 'processing' THEN 0 ELSE 1 END,
    take_overs = t.take_overs + CASE WHEN t.state = 'processing' THEN 1 ELSE 0 END,
    moves = t.moves + 1,
    last_move = CASE WHEN t.state = 'processing' THEN 'take_over' ELSE 'claim' END::assay.task_move,
    last_moved_at = excluded.last_moved_at,
    last_actor = excluded.last_actor,
    last_reason = CASE WHEN t.state = 'processing' THEN 'lease_expired' ELSE 'due' END
WHERE t.input_sha256 = excluded.input_sha256
  AND ((t.state = 'processing' AND t.lease_until < excluded.last_moved_at
        AND NOT EXISTS (SELECT FROM assay.leases l WHERE l.lease_id = t.lease_id AND l.ended_at IS NULL))
       OR (t.state = 'retry_scheduled' AND t.not_before <= excluded.last_moved_at AND t.replay_id IS NULL))
RETURNING t.record_id, t.input_version, t.task_id, t.attempt_id, t.encrypted_text_ref, t.attempts,
          t.first_pass_code, t.quality_selected, (t.moves + 1 + t.take_overs) / 2, t.take_overs,
          t.aged_seconds, t.last_move = 'take_over', t.replay_id, t.lease_id

-- name: claim_recover
-- Tasks that a claim of ours already holds: its commit went through, its reply was lost.
SELECT t.record_id, t.input_version, t.task_id, t.attempt_id, t.encrypted_text_ref, t.attempts,
       t.first_pass_code, t.quality_selected, (t.moves + 1 + t.take_overs) / 2, t.take_overs,
       t.aged_seconds, t.last_move = 'take_over', t.replay_id, t.lease_id
FROM unnest(%(record_ids)b::text[], %(input_versions)b::int4[], %(attempt_ids)b::uuid[])
     AS o (record_id, input_version, attempt_id)
JOIN assay.annotation_tasks t
    ON t.record_id = o.record_id AND t.input_version = o.input_version
    AND t.version_id = %(version_id)b::int4 AND t.attempt_id = o.attempt_id

-- name: claim_push_parked
-- A parked task that is being worked on comes up again when its new lease ends, should its worker die.
UPDATE assay.parked_tasks p
SET due_at = t.lease_until
FROM assay.annotation_tasks t
WHERE p.task_id = ANY (%(task_ids)b::int8[]) AND t.task_id = p.task_id

-- name: claim_batch
-- The batch as a whole, so that take-over can find its tasks after the lease.
INSERT INTO assay.claim_batches (version_id, owner, claimed_at, check_at, task_ids, lease_id)
SELECT %(version_id)b::int4, %(actor)b::text, clock.now,
       clock.now + make_interval(secs => %(lease_seconds)b::float8), %(task_ids)b::int8[], %(lease_id)b::int8
FROM (SELECT assay.assay_now() AS now) AS clock

-- name: claim_park
-- Tasks that this transaction has claimed wait instead, due at once: no attempt and no age is used up. The work
-- list has them from here on, so that any worker of the version finds them.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
parked AS (
    UPDATE assay.annotation_tasks t
    SET state = 'retry_scheduled', attempt_id = NULL, lease_until = NULL, lease_id = NULL,
        not_before = clock.now, attempts = greatest(t.attempts - 1, 0), moves = t.moves + 1,
        last_move = 'park', last_moved_at = clock.now, last_actor = %(actor)b::text,
        last_reason = %(reason)b::text
    FROM clock
    WHERE t.task_id = ANY (%(task_ids)b::int8[])
    RETURNING t.task_id, t.version_id, t.not_before, t.record_id, t.input_version
)
INSERT INTO assay.parked_tasks AS p (task_id, version_id, due_at, low)
SELECT t.task_id, t.version_id, t.not_before, coalesce(i.priority = 'low', false)
FROM parked t
LEFT JOIN LATERAL (
    SELECT i.priority FROM assay.inputs i
    WHERE i.record_id = t.record_id AND i.input_version = t.input_version
    OFFSET 0
) AS i ON true
ORDER BY t.task_id
ON CONFLICT (task_id) DO UPDATE SET due_at = excluded.due_at, low = excluded.low

-- name: claim_keys
-- Wrapped data keys of inputs that somebody else stored.
SELECT text_ref, subject_id, kek_id, wrapped_key
FROM assay_vault.texts
WHERE text_ref = ANY (%(text_refs)b::int8[])

-- name: ensure_subject_keys
-- A subject's key is made once; the first one stays.
INSERT INTO assay_vault.subject_keys (subject_id, kek_id, wrapped_key)
SELECT u.subject_id, %(kek_id)b::text, u.wrapped_key
FROM unnest(%(subject_ids)b::text[], %(wrapped_keys)b::bytea[]) AS u (subject_id, wrapped_key)
ORDER BY u.subject_id COLLATE "C"
ON CONFLICT (subject_id) DO NOTHING

-- name: read_subject_keys
-- Wrapped keys of subjects.
SELECT subject_id, kek_id, wrapped_key FROM assay_vault.subject_keys
WHERE subject_id = ANY (%(subject_ids)b::text[])

-- name: waiting_candidates
-- Parked tasks that are due, and tasks of claim batches whose lease has run out. Only candidates: nothing is
-- locked, claim_waiting decides. (Locking parked rows first would turn the lock order around.) A retry whose
-- lease was renewed is past its due_at and no candidate: many of them must not use up the limit. The pages of
-- the work list are cut by key (due_at, task_id), never by an offset: a page of tasks that cannot be claimed
-- does not hide what is behind it. Normal records come before those of low priority (`low_first` turns that
-- around), each with a key of its own; while low priority is paused none of those is looked at. Only what waits
-- because its vendor failed is a retry: up to `retries` of those, however much else is due (a drained run, a
-- breaker or a stop parked it). `lease_to_end`: the lease that end_leases has to end before. Texts count against
-- a budget of bytes; the first one always fits. The clock is a scalar and `due` is written out for each of its
-- readers: so each reads the index in its order and ends at its limit.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now, assay.low_paused(%(version_id)b::int4) AS low_paused),
due AS NOT MATERIALIZED (
    SELECT p.task_id, p.due_at, p.low, t.state, t.lease_id, t.encrypted_text_ref,
           t.state = 'retry_scheduled' AND t.last_reason = ANY (%(retry_codes)b::text[]) AS is_retry
    FROM assay.parked_tasks p
    CROSS JOIN LATERAL (
        SELECT t.state, t.lease_id, t.encrypted_text_ref, t.last_reason,
               assay.lease_end(t.lease_until, t.lease_id) AS lease_end
        FROM assay.annotation_tasks t
        WHERE t.task_id = p.task_id
        OFFSET 0
    ) AS t
    WHERE p.version_id = %(version_id)b::int4 AND p.due_at <= (SELECT now FROM clock)
      AND (t.state = 'retry_scheduled' OR t.lease_end < (SELECT now FROM clock))
),
parked AS MATERIALIZED (
    (SELECT * FROM due
     WHERE NOT low AND is_retry AND (due_at, task_id) > (%(after_due)b::timestamptz, %(after_task)b::int8)
     ORDER BY due_at, task_id LIMIT %(retries)b::int4)
    UNION ALL
    (SELECT * FROM due
     WHERE NOT low AND NOT is_retry AND (due_at, task_id) > (%(after_due)b::timestamptz, %(after_task)b::int8)
     ORDER BY due_at, task_id LIMIT %(most)b::int4)
    UNION ALL
    (SELECT * FROM due
     WHERE low AND NOT (SELECT low_paused FROM clock) AND (NOT is_retry OR %(retries)b::int4 > 0)
       AND (due_at, task_id) > (%(low_after_due)b::timestamptz, %(low_after_task)b::int8)
     ORDER BY due_at, task_id LIMIT %(most)b::int4)
),
abandoned AS MATERIALIZED (
    SELECT t.task_id, t.lease_id AS lease_to_end, t.encrypted_text_ref
    FROM assay.claim_batches b
    CROSS JOIN clock
    CROSS JOIN LATERAL unnest(b.task_ids) AS member (task_id)
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.state, t.lease_id, t.encrypted_text_ref,
               assay.lease_end(t.lease_until, t.lease_id) AS lease_end
        FROM assay.annotation_tasks t
        WHERE t.task_id = member.task_id
        OFFSET 0
    ) AS t
    WHERE b.version_id = %(version_id)b::int4 AND b.check_at <= clock.now
      AND NOT EXISTS (SELECT FROM assay.leases l WHERE l.lease_id = b.lease_id AND l.ended_at IS NULL
                                                   AND l.lease_until >= clock.now)
      AND t.state = 'processing' AND t.lease_end < clock.now
    LIMIT %(most)b::int4
),
found AS (
    SELECT each.*, CASE WHEN due_at IS NULL THEN 0 WHEN low = %(low_first)b::bool THEN 1 ELSE 2 END AS rank
    FROM (
        SELECT task_id, min(due_at) AS due_at, bool_or(low) AS low, bool_or(is_retry) AS is_retry,
               max(lease_to_end) AS lease_to_end, max(encrypted_text_ref) AS encrypted_text_ref
        FROM (SELECT task_id, due_at, low, is_retry, encrypted_text_ref,
                     CASE WHEN state = 'processing' THEN lease_id END AS lease_to_end
              FROM parked
              UNION ALL
              SELECT task_id, NULL, NULL, false, encrypted_text_ref, lease_to_end FROM abandoned) AS either
        GROUP BY task_id
    ) AS each
),
counted AS (
    SELECT f.*, count(*) FILTER (WHERE is_retry) OVER (ORDER BY rank, due_at, task_id) AS retries FROM found f
),
sized AS (
    SELECT f.task_id, f.due_at, f.lease_to_end, f.low,
           sum(coalesce(octet_length(x.ciphertext), 0)) OVER (ORDER BY f.rank, f.due_at, f.task_id) AS bytes,
           row_number() OVER (ORDER BY f.rank, f.due_at, f.task_id) AS place
    FROM counted f
    LEFT JOIN LATERAL (
        SELECT x.ciphertext FROM assay_vault.texts x WHERE x.text_ref = f.encrypted_text_ref OFFSET 0
    ) AS x ON true
    WHERE NOT f.is_retry OR f.retries <= %(retries)b::int4
)
SELECT task_id, due_at, lease_to_end, low
FROM sized
WHERE place = 1 OR (bytes <= %(bytes)b::int8 AND place <= %(most)b::int4)
ORDER BY place

-- name: claim_waiting
-- Claim candidates by task, in key order; rows that somebody else holds are skipped.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now,
                                   assay.last_outage(%(account)b::text) AS outage_until),
ready AS MATERIALIZED (
    SELECT t.task_id, o.attempt_id,
           t.state = 'retry_scheduled' AND t.last_reason = ANY (%(retry_codes)b::text[]) AS is_retry
    FROM unnest(%(task_ids)b::int8[], %(attempt_ids)b::uuid[]) AS o (task_id, attempt_id)
    JOIN assay.annotation_tasks t ON t.task_id = o.task_id
    CROSS JOIN clock
    WHERE (t.state = 'processing' AND t.lease_until < clock.now
           AND NOT EXISTS (SELECT FROM assay.leases l WHERE l.lease_id = t.lease_id AND l.ended_at IS NULL))
       OR (t.state = 'retry_scheduled' AND t.not_before <= clock.now)
    ORDER BY t.record_id, t.input_version, t.version_id
    FOR UPDATE OF t SKIP LOCKED
)
UPDATE assay.annotation_tasks t
SET state = 'processing',
    attempt_id = ready.attempt_id,
    lease_until = clock.now + make_interval(secs => %(lease_seconds)b::float8),
    lease_id = %(lease_id)b::int8,
    not_before = NULL,
    aged_seconds = t.aged_seconds + CASE WHEN t.state = 'retry_scheduled' THEN assay.time_spent(
        t.last_moved_at, least(t.not_before, clock.now), %(account)b::text, clock.outage_until) ELSE 0 END,
    attempts = t.attempts + CASE WHEN t.state = 'processing' THEN 0 ELSE 1 END,
    take_overs = t.take_overs + CASE WHEN t.state = 'processing' THEN 1 ELSE 0 END,
    moves = t.moves + 1,
    last_move = CASE WHEN t.state = 'processing' THEN 'take_over' ELSE 'claim' END::assay.task_move,
    last_moved_at = clock.now,
    last_actor = %(actor)b::text,
    last_reason = CASE WHEN t.state = 'processing' THEN 'lease_expired' ELSE 'due' END
FROM ready, clock
WHERE t.task_id = ready.task_id
RETURNING t.record_id, t.input_version, t.task_id, t.attempt_id, t.encrypted_text_ref, t.attempts,
          t.first_pass_code, t.quality_selected, (t.moves + 1 + t.take_overs) / 2, t.take_overs,
          t.aged_seconds, t.last_move = 'take_over',
          t.input_sha256, ready.is_retry, t.replay_id, t.lease_id

-- name: waiting_recover
-- Tasks that a claim_waiting of ours already holds: its commit went through, its reply was lost.
SELECT t.record_id, t.input_version, t.task_id, t.attempt_id, t.encrypted_text_ref, t.attempts,
       t.first_pass_code, t.quality_selected, (t.moves + 1 + t.take_overs) / 2, t.take_overs,
       t.aged_seconds, t.last_move = 'take_over',
       t.input_sha256, false, t.replay_id, t.lease_id
FROM unnest(%(task_ids)b::int8[], %(attempt_ids)b::uuid[]) AS o (task_id, attempt_id)
JOIN assay.annotation_tasks t ON t.task_id = o.task_id AND t.attempt_id = o.attempt_id

-- name: read_texts
-- Sealed texts with the wrapped keys that open them.
SELECT text_ref, subject_id, kek_id, wrapped_key, ciphertext
FROM assay_vault.texts
WHERE text_ref = ANY (%(text_refs)b::int8[])

-- name: kept_responses
-- The responses that replays judge again, by task: the last one that the contract of the annotation before refused.
SELECT t.task_id, x.attempt_id, x.pass_number, x.truncated, x.ciphertext
FROM unnest(%(task_ids)b::int8[]) AS u (task_id)
JOIN assay.annotation_tasks t ON t.task_id = u.task_id
JOIN assay.replays r ON r.replay_id = t.replay_id AND r.stage = 'validate'
CROSS JOIN LATERAL (
    SELECT x.attempt_id, x.pass_number, x.truncated, x.ciphertext
    FROM assay_vault.responses x
    WHERE x.task_id = coalesce(t.replay_of, t.task_id)
    ORDER BY x.response_id DESC
    LIMIT 1
) AS x

-- name: renew_lease
-- Extend a worker's lease, one row for all that it holds. No row: somebody found it run out and ended it.
UPDATE assay.leases
SET lease_until = assay.assay_now() + make_interval(secs => %(lease_seconds)b::float8)
WHERE lease_id = %(lease_id)b::int8 AND ended_at IS NULL
RETURNING lease_id

-- name: adopt_tasks
-- After a lease was ended: what nobody took over yet goes on under the new lease, in key order. What is missing
-- from the answer is lost.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
ours AS MATERIALIZED (
    SELECT t.task_id
    FROM unnest(%(task_ids)b::int8[], %(attempt_ids)b::uuid[]) AS o (task_id, attempt_id)
    JOIN assay.annotation_tasks t ON t.task_id = o.task_id AND t.attempt_id = o.attempt_id
    ORDER BY t.record_id, t.input_version, t.version_id
    FOR UPDATE OF t
)
UPDATE assay.annotation_tasks t
SET lease_until = clock.now + make_interval(secs => %(lease_seconds)b::float8), lease_id = %(lease_id)b::int8
FROM ours, clock
WHERE t.task_id = ours.task_id
RETURNING t.task_id, t.attempt_id, t.version_id

-- name: tidy_batches
-- Forget batches none of whose tasks is being processed any more, and leases that hold nothing and were ended,
-- or were left a day ago. (A worker that has had nothing to do for a while still has its own.)
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
done AS (
    DELETE FROM assay.claim_batches b
    WHERE b.version_id = %(version_id)b::int4
      AND NOT EXISTS (
          SELECT FROM unnest(b.task_ids) AS member (task_id)
          CROSS JOIN LATERAL (
              SELECT FROM assay.annotation_tasks t
              WHERE t.task_id = member.task_id AND t.state = 'processing'
              OFFSET 0
          ) AS t)
    RETURNING 1
),
gone AS (
    DELETE FROM assay.leases l
    USING clock
    WHERE (l.ended_at IS NOT NULL OR l.lease_until < clock.now - interval '1 day')
      AND NOT EXISTS (SELECT FROM assay.claim_batches b WHERE b.lease_id = l.lease_id)
)
SELECT count(*) FROM done

-- name: tidy_responses
-- Delete kept responses that have expired, of all versions, some at a time; but not what a replay has let out to be
-- judged again, or is letting out this minute: the model would be called in its place. Rows that somebody else
-- deletes are left to them.
DELETE FROM assay_vault.responses x
WHERE x.response_id IN (
    SELECT e.response_id FROM assay_vault.responses e
    WHERE e.expires_at < (SELECT assay.assay_now() - interval '1 minute')
      AND NOT EXISTS (
          SELECT FROM assay.replay_items i
          WHERE i.task_id = e.task_id AND i.state = 'released')
    ORDER BY e.expires_at
    LIMIT 1000
    FOR UPDATE OF e SKIP LOCKED)

-- name: next_due
-- Seconds until the next parked task of this version comes up (0: now; NULL: none), and how many there are,
-- but for those that the pause of low priority holds back.
SELECT CASE WHEN count(*) > 0
            THEN greatest(extract(epoch FROM min(p.due_at) - assay.assay_now()), 0)::float8 END,
       count(*)
FROM assay.parked_tasks p
WHERE p.version_id = %(version_id)b::int4
  AND (NOT p.low OR NOT (SELECT assay.low_paused(%(version_id)b::int4)))

-- name: low_priority
-- Whether records of low priority are paused, and how many parked tasks that holds back.
SELECT pause.is_on, held.tasks
FROM (SELECT assay.low_paused(%(version_id)b::int4) AS is_on OFFSET 0) AS pause
CROSS JOIN LATERAL (
    SELECT count(*) AS tasks FROM assay.parked_tasks p
    WHERE pause.is_on AND p.version_id = %(version_id)b::int4 AND p.low
) AS held
