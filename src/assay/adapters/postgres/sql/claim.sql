-- Claim first, then call. One READ COMMITTED transaction per batch:
--   claim_read (what is there?) · claim_register_inputs · claim_tasks · claim_read again for the offers that
--   were not won · claim_batch. The second read must be its own statement: a row committed by somebody else
--   while ours waited is invisible to the statement that waited. Callers send each key once per batch.
-- Locks are taken in key order everywhere (inputs before tasks), so that two batches in opposite orders
-- queue instead of deadlocking.

-- name: claim_read
-- The state of the offered keys, in the order offered. Reads only.
SELECT
    i.input_sha256,
    t.state::text,
    (t.state = 'processing' AND t.lease_until < clock.now)
        OR (t.state = 'retry_scheduled' AND t.not_before <= clock.now) AS claimable,
    CASE WHEN t.state = 'processing'
         THEN greatest(extract(epoch FROM t.lease_until - clock.now), 0)::float8 ELSE 0 END AS wait_seconds,
    t.attempt_id, i.source_id, i.partition_no, i.source_offset
FROM unnest(%(record_ids)b::text[], %(input_versions)b::int4[])
     WITH ORDINALITY AS offered (record_id, input_version, position)
CROSS JOIN (SELECT assay.assay_now() AS now OFFSET 0) AS clock
LEFT JOIN assay.inputs i
    ON i.record_id = offered.record_id AND i.input_version = offered.input_version
LEFT JOIN assay.annotation_tasks t
    ON t.record_id = offered.record_id AND t.input_version = offered.input_version
    AND t.version_id = %(version_id)b::int4
ORDER BY offered.position

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
-- Returns the text_ref of each input that this statement stored.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
offered AS MATERIALIZED (
    SELECT * FROM unnest(
        %(record_ids)b::text[], %(input_versions)b::int4[], %(sha256s)b::bytea[],
        %(partitions)b::int4[], %(offsets)b::int8[], %(lines)b::int8[],
        %(document_types)b::text[], %(customers)b::text[], %(subject_ids)b::text[], %(languages)b::text[],
        %(sensitivities)b::text[], %(jurisdictions)b::text[], %(schema_versions)b::text[],
        %(ocr_versions)b::text[], %(priorities)b::text[], %(correlation_ids)b::text[],
        %(trace_parents)b::text[], %(wrapped_keys)b::bytea[], %(ciphertexts)b::bytea[]
    ) AS u (record_id, input_version, input_sha256, partition_no, source_offset, source_line,
            document_type, customer, subject_id, language, sensitivity, jurisdiction, schema_version,
            ocr_version, priority, correlation_id, trace_parent, wrapped_key, ciphertext)
),
registered AS (
    INSERT INTO assay.inputs
        (record_id, input_version, input_sha256, encrypted_text_ref, source_id, partition_no, source_offset,
         source_line, document_type, customer, subject_id, language, sensitivity, jurisdiction,
         schema_version, ocr_version, priority, correlation_id, trace_parent, first_seen_at)
    SELECT o.record_id, o.input_version, o.input_sha256, nextval('assay_vault.refs'),
           %(source_id)b::int4, o.partition_no, o.source_offset, o.source_line, o.document_type, o.customer,
           o.subject_id, o.language, o.sensitivity, o.jurisdiction, o.schema_version, o.ocr_version,
           o.priority, o.correlation_id, o.trace_parent, clock.now
    FROM offered o, clock
    ORDER BY o.record_id COLLATE "C", o.input_version
    ON CONFLICT (record_id, input_version) DO NOTHING
    RETURNING record_id, input_version, encrypted_text_ref
)
INSERT INTO assay_vault.texts (text_ref, subject_id, kek_id, wrapped_key, ciphertext)
SELECT r.encrypted_text_ref, o.subject_id, %(kek_id)b::text, o.wrapped_key, o.ciphertext
FROM registered r
JOIN offered o ON o.record_id = r.record_id AND o.input_version = r.input_version
RETURNING text_ref

-- name: claim_tasks
-- Insert or take over. Wins need equal content: the join to inputs refuses another hash, the WHERE refuses it
-- once more for an existing task. The clock is read once, before any wait for a lock, which makes the test of
-- the other lease conservative.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
offered AS MATERIALIZED (
    SELECT * FROM unnest(
        %(record_ids)b::text[], %(input_versions)b::int4[], %(sha256s)b::bytea[], %(attempt_ids)b::uuid[],
        %(quality_probabilities)b::float4[], %(quality_selected)b::bool[]
    ) AS u (record_id, input_version, input_sha256, attempt_id, quality_probability, quality_selected)
)
INSERT INTO assay.annotation_tasks AS t
    (record_id, input_version, version_id, input_sha256, encrypted_text_ref, state, attempt_id, lease_until,
     attempts, quality_probability, quality_selected, first_claimed_at,
     moves, last_move, last_moved_at, last_actor, last_reason)
SELECT o.record_id, o.input_version, %(version_id)b::int4, o.input_sha256, i.encrypted_text_ref, 'processing',
       o.attempt_id, clock.now + make_interval(secs => %(lease_seconds)b::float8),
       1, o.quality_probability, o.quality_selected, clock.now, 1, 'claim', clock.now, %(actor)b::text,
       'offered'
FROM offered o
CROSS JOIN clock
JOIN assay.inputs i
    ON i.record_id = o.record_id AND i.input_version = o.input_version AND i.input_sha256 = o.input_sha256
ORDER BY o.record_id COLLATE "C", o.input_version
ON CONFLICT (record_id, input_version, version_id) DO UPDATE SET
    state = 'processing',
    attempt_id = excluded.attempt_id,
    lease_until = excluded.lease_until,
    not_before = NULL,
    aged_seconds = t.aged_seconds + CASE WHEN t.state = 'retry_scheduled'
        THEN extract(epoch FROM least(t.not_before, excluded.last_moved_at) - t.last_moved_at) ELSE 0 END,
    attempts = t.attempts + CASE WHEN t.state = 'processing' THEN 0 ELSE 1 END,
    take_overs = t.take_overs + CASE WHEN t.state = 'processing' THEN 1 ELSE 0 END,
    moves = t.moves + 1,
    last_move = CASE WHEN t.state = 'processing' THEN 'take_over' ELSE 'claim' END::assay.task_move,
    last_moved_at = excluded.last_moved_at,
    last_actor = excluded.last_actor,
    last_reason = CASE WHEN t.state = 'processing' THEN 'lease_expired' ELSE 'due' END
WHERE t.input_sha256 = excluded.input_sha256
  AND ((t.state = 'processing' AND t.lease_until < excluded.last_moved_at)
       OR (t.state = 'retry_scheduled' AND t.not_before <= excluded.last_moved_at))
RETURNING t.record_id, t.input_version, t.task_id, t.attempt_id, t.encrypted_text_ref, t.attempts,
          t.first_pass_code, t.quality_selected, (t.moves + 1 + t.take_overs) / 2, t.take_overs,
          t.aged_seconds, t.last_move = 'take_over'

-- name: claim_recover
-- Tasks that a claim of ours already holds: its commit went through, its reply was lost.
SELECT t.record_id, t.input_version, t.task_id, t.attempt_id, t.encrypted_text_ref, t.attempts,
       t.first_pass_code, t.quality_selected, (t.moves + 1 + t.take_overs) / 2, t.take_overs,
       t.aged_seconds, t.last_move = 'take_over'
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
INSERT INTO assay.claim_batches (version_id, owner, claimed_at, check_at, task_ids)
SELECT %(version_id)b::int4, %(actor)b::text, clock.now,
       clock.now + make_interval(secs => %(lease_seconds)b::float8), %(task_ids)b::int8[]
FROM (SELECT assay.assay_now() AS now) AS clock

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
-- Parked tasks that are due, and tasks of claim batches whose lease may have ended. Only candidates: nothing
-- is locked, claim_waiting decides. (Locking parked rows first would turn the lock order around.) A retry whose
-- lease was renewed is past its due_at and no candidate: many of them must not use up the limit.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
parked AS (
    SELECT p.task_id
    FROM assay.parked_tasks p
    CROSS JOIN clock
    JOIN assay.annotation_tasks t ON t.task_id = p.task_id
    WHERE p.version_id = %(version_id)b::int4 AND p.due_at <= clock.now
      AND (t.state = 'retry_scheduled' OR t.lease_until < clock.now)
    ORDER BY p.due_at, p.task_id
    LIMIT %(most)b::int4
),
abandoned AS (
    SELECT t.task_id
    FROM assay.claim_batches b
    CROSS JOIN clock
    CROSS JOIN LATERAL unnest(b.task_ids) AS member (task_id)
    JOIN assay.annotation_tasks t ON t.task_id = member.task_id
    WHERE b.version_id = %(version_id)b::int4 AND b.check_at <= clock.now
      AND t.state = 'processing' AND t.lease_until < clock.now
    LIMIT %(most)b::int4
)
SELECT task_id FROM parked UNION SELECT task_id FROM abandoned

-- name: claim_waiting
-- Claim candidates by task, in key order; rows that somebody else holds are skipped.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
ready AS MATERIALIZED (
    SELECT t.task_id, o.attempt_id
    FROM unnest(%(task_ids)b::int8[], %(attempt_ids)b::uuid[]) AS o (task_id, attempt_id)
    JOIN assay.annotation_tasks t ON t.task_id = o.task_id
    CROSS JOIN clock
    WHERE (t.state = 'processing' AND t.lease_until < clock.now)
       OR (t.state = 'retry_scheduled' AND t.not_before <= clock.now)
    ORDER BY t.record_id, t.input_version, t.version_id
    FOR UPDATE OF t SKIP LOCKED
)
UPDATE assay.annotation_tasks t
SET state = 'processing',
    attempt_id = ready.attempt_id,
    lease_until = clock.now + make_interval(secs => %(lease_seconds)b::float8),
    not_before = NULL,
    aged_seconds = t.aged_seconds + CASE WHEN t.state = 'retry_scheduled'
        THEN extract(epoch FROM least(t.not_before, clock.now) - t.last_moved_at) ELSE 0 END,
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
          t.input_sha256

-- name: waiting_recover
-- Tasks that a claim_waiting of ours already holds: its commit went through, its reply was lost.
SELECT t.record_id, t.input_version, t.task_id, t.attempt_id, t.encrypted_text_ref, t.attempts,
       t.first_pass_code, t.quality_selected, (t.moves + 1 + t.take_overs) / 2, t.take_overs,
       t.aged_seconds, t.last_move = 'take_over',
       t.input_sha256
FROM unnest(%(task_ids)b::int8[], %(attempt_ids)b::uuid[]) AS o (task_id, attempt_id)
JOIN assay.annotation_tasks t ON t.task_id = o.task_id AND t.attempt_id = o.attempt_id

-- name: read_texts
-- Sealed texts with the wrapped keys that open them.
SELECT text_ref, subject_id, kek_id, wrapped_key, ciphertext
FROM assay_vault.texts
WHERE text_ref = ANY (%(text_refs)b::int8[])

-- name: renew
-- Extend the leases that are still ours, in key order. What is missing from the answer is lost.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
ours AS MATERIALIZED (
    SELECT t.task_id
    FROM unnest(%(task_ids)b::int8[], %(attempt_ids)b::uuid[]) AS o (task_id, attempt_id)
    JOIN assay.annotation_tasks t ON t.task_id = o.task_id AND t.attempt_id = o.attempt_id
    ORDER BY t.record_id, t.input_version, t.version_id
    FOR UPDATE OF t
)
UPDATE assay.annotation_tasks t
SET lease_until = clock.now + make_interval(secs => %(lease_seconds)b::float8)
FROM ours, clock
WHERE t.task_id = ours.task_id
RETURNING t.task_id, t.attempt_id

-- name: tidy_batches
-- Forget batches none of whose tasks is being processed any more; look at the others again after a lease.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
done AS (
    DELETE FROM assay.claim_batches b
    USING clock
    WHERE b.version_id = %(version_id)b::int4
      AND NOT EXISTS (
          SELECT FROM assay.annotation_tasks t
          WHERE t.task_id = ANY (b.task_ids) AND t.state = 'processing')
    RETURNING 1
)
SELECT count(*) FROM done

-- name: next_due
-- Seconds until the next parked task of this version comes up (0: now; NULL: none), and how many there are.
SELECT CASE WHEN count(*) > 0
            THEN greatest(extract(epoch FROM min(p.due_at) - assay.assay_now()), 0)::float8 END,
       count(*)
FROM assay.parked_tasks p
WHERE p.version_id = %(version_id)b::int4
