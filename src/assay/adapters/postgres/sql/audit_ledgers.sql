-- Invariants of the call ledger, the outbox, the work list, sources, versions and the vault's rows.

-- name: call_is_of_an_attempt_of_its_task
-- A call belongs to an attempt, a task and a version that fit.
SELECT 'call ' || c.call_id, c.task_id
FROM assay.calls c
LEFT JOIN assay.annotation_tasks t ON t.task_id = c.task_id
LEFT JOIN assay.task_history h
    ON h.task_id = c.task_id AND h.attempt_id = c.attempt_id AND h.to_state = 'processing'
WHERE h.task_id IS NULL OR c.version_id IS DISTINCT FROM t.version_id

-- name: one_call_per_attempt_and_pass
-- The ledger has one call per attempt and pass.
SELECT 'attempt ' || attempt_id || ', pass ' || pass_number, max(task_id)
FROM assay.calls
GROUP BY attempt_id, pass_number
HAVING count(*) > 1

-- name: taken_over_attempt_is_charged
-- An attempt that was taken over has a call, lost or reported late.
SELECT 'task ' || h.task_id || ', attempt ' || h.replaced_attempt_id, h.task_id
FROM assay.task_history h
WHERE h.move = 'take_over'
  AND NOT EXISTS (
      SELECT FROM assay.calls c
      WHERE c.task_id = h.task_id AND c.attempt_id = h.replaced_attempt_id
        AND c.outcome IN ('outcome_unknown', 'lease_lost'))

-- name: unknown_call_is_charged
-- A call whose outcome is unknown is billed at its reserve.
SELECT 'call ' || call_id, task_id
FROM assay.calls
WHERE outcome = 'outcome_unknown' AND (NOT billed OR cost IS NULL)

-- name: lost_call_brings_no_result
-- A call that came back after its lease was lost made no output.
SELECT 'call ' || c.call_id, c.task_id
FROM assay.calls c
JOIN assay.annotation_outputs o ON o.task_id = c.task_id AND o.attempt_id = c.attempt_id
WHERE c.outcome = 'lease_lost'

-- name: label_comes_from_an_accepted_call
-- A label comes from an accepted call of the attempt that finished, or from a kept response.
-- A replay may have judged that again.
SELECT 'task ' || o.task_id, o.task_id
FROM assay.annotation_outputs o
LEFT JOIN assay.calls c
    ON c.task_id = o.task_id AND c.attempt_id = o.attempt_id AND c.outcome = 'accepted'
WHERE o.label_json IS NOT NULL AND NOT o.repaired AND c.call_id IS NULL
  AND NOT EXISTS (
      SELECT FROM assay.replay_items i
      JOIN assay.replays r ON r.replay_id = i.replay_id AND r.stage = 'validate'
      JOIN assay.calls k ON k.task_id = i.task_id AND k.outcome = 'rejected'
      WHERE i.runs_task_id = o.task_id AND i.state = 'succeeded')

-- name: refusal_comes_from_a_call
-- A dead letter of class contract or policy has the call that was refused, its own or of before.
-- What a replay judged again is the kept response of an earlier call.
-- Exhausted retries (class transient) need no call of the attempt that gave up, and of withdrawn tasks none
-- was refused.
SELECT 'dead letter ' || d.dead_letter_id, d.task_id
FROM assay.dead_letters d
JOIN assay.task_history h
    ON h.task_id = d.task_id AND h.attempt_id = d.attempt_id AND h.move = 'dead_letter'
WHERE d.failure_class IN ('contract', 'policy')
  AND NOT EXISTS (
      SELECT FROM assay.calls c
      WHERE c.task_id = d.task_id AND c.attempt_id = d.attempt_id AND c.outcome IN ('rejected', 'failed'))
  AND NOT EXISTS (
      SELECT FROM assay.replay_items i
      JOIN assay.replays r ON r.replay_id = i.replay_id AND r.stage = 'validate'
      JOIN assay.calls k ON k.task_id = i.task_id AND k.outcome = 'rejected'
      WHERE i.runs_task_id = d.task_id AND i.state = 'failed')

-- name: each_pass_is_answered_once
-- No pass of a task is asked for again once its answer counted.
-- A first-pass failure survives parking and take-over, so that holds for both passes, unless the task was
-- replayed or assigned to serve.
SELECT 'task ' || c.task_id || ', pass ' || c.pass_number, c.task_id
FROM assay.calls c
WHERE c.outcome IN ('accepted', 'rejected')
GROUP BY c.task_id, c.pass_number
HAVING count(*) > 1
   AND count(*) > 1 + (
       SELECT count(*) FROM assay.task_history h
       WHERE h.task_id = c.task_id AND h.to_state = 'processing'
         AND h.from_state IN ('quarantined', 'shadowed'))

-- name: correction_follows_a_failure
-- A correction was called only where the first pass had failed.
-- A replay begins with a first pass anew.
SELECT 'call ' || c.call_id, c.task_id
FROM assay.calls c
JOIN assay.annotation_tasks t ON t.task_id = c.task_id
WHERE c.pass_number = 2 AND t.first_pass_code IS NULL
  AND NOT EXISTS (
      SELECT FROM assay.task_history h
      WHERE h.task_id = c.task_id AND h.move = 'replay' AND h.at >= c.recorded_at)

-- name: every_revision_has_its_event
-- Each revision of a result, from 1 on, has its event.
-- Receipts are forgotten by day of delivery, so what is missing is a first part of an aggregate's revisions, or
-- all of them where the last one came about before the horizon.
SELECT 'result ' || r.name || '/' || r.record_id, r.task_id
FROM assay.results r
CROSS JOIN assay.outbox_horizon h
LEFT JOIN (
    SELECT aggregate_id, count(DISTINCT revision) AS told, min(revision) AS first, max(revision) AS last
    FROM assay.known_events
    WHERE aggregate_kind = 'result' AND kind <> 'superseded'
    GROUP BY aggregate_id
) e ON e.aggregate_id = r.name || '/' || r.record_id
WHERE NOT CASE
    WHEN e.told IS NULL THEN r.updated_at < h.forgotten_before
    ELSE e.last = r.revision AND e.told = e.last - e.first + 1
         AND (e.first = 1 OR h.forgotten_before > '-infinity') END

-- name: events_are_in_order
-- Events of one aggregate are queued in the order of their revisions.
SELECT 'event ' || event_id, task_id
FROM (
    SELECT event_id, task_id, revision,
           lag(revision) OVER (PARTITION BY aggregate_kind, aggregate_id ORDER BY outbox_id) AS before
    FROM assay.known_events
) told
WHERE revision < before

-- name: no_event_overtakes
-- No event was delivered while an earlier one of its aggregate waited.
-- What a person parked is out of the way. Deliveries of one batch share their time.
SELECT 'event ' || event_id, task_id
FROM (
    SELECT event_id, task_id, place, published_at,
           max(published_at) OVER earlier AS before, bool_or(place = 'waiting') OVER earlier AS waits
    FROM assay.known_events
    WHERE place <> 'parked'
    WINDOW earlier AS (PARTITION BY aggregate_kind, aggregate_id ORDER BY outbox_id
                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) told
WHERE place = 'published' AND (waits OR published_at < before - interval '1 minute')

-- name: event_is_told_once
-- No event is known twice: it waits, or was delivered, or is parked.
SELECT 'event ' || event_id, max(task_id)
FROM assay.known_events
GROUP BY event_id
HAVING count(*) > 1

-- name: receipt_follows_its_event
-- A receipt names its sink, and a delivery that came after the event.
-- Here and above a minute is left for clocks that are set back.
SELECT 'event ' || event_id, task_id
FROM assay.outbox_receipts
WHERE sink = '' OR published_at < created_at - interval '1 minute'

-- name: refusal_is_of_a_waiting_event
-- What holds an aggregate back is the first event of it that waits.
SELECT 'event ' || f.event_id, NULL::int8
FROM assay.outbox_failures f
LEFT JOIN assay.outbox_events e ON e.bucket = f.bucket AND e.outbox_id = f.outbox_id
WHERE (e.event_id, e.aggregate_kind, e.aggregate_id)
      IS DISTINCT FROM (f.event_id, f.aggregate_kind, f.aggregate_id)
   OR EXISTS (
       SELECT FROM assay.outbox_events b
       WHERE b.bucket = f.bucket AND b.outbox_id < f.outbox_id
         AND b.aggregate_kind = f.aggregate_kind AND b.aggregate_id = f.aggregate_id)

-- name: every_bucket_is_there
-- The outbox has its 64 buckets, so that every event has a publisher.
SELECT 'bucket ' || n, NULL::int8
FROM generate_series(0, 63) AS n
LEFT JOIN assay.outbox_buckets b ON b.bucket = n
WHERE b.bucket IS NULL

-- name: event_id_is_derived
-- Event ids are derived from aggregate, kind, revision and restore epoch.
SELECT 'event ' || e.event_id, e.task_id
FROM assay.known_events e
CROSS JOIN LATERAL (
    SELECT CASE e.kind WHEN 'superseded' THEN 'superseded:' || e.task_id ELSE e.kind END AS kind
) AS named
WHERE e.event_id NOT IN (
    SELECT assay.event_id(e.aggregate_kind, e.aggregate_id, named.kind, e.revision, epoch)
    FROM assay.instance i, generate_series(0, i.restore_epoch) AS epoch)

-- name: event_tells_of_what_exists
-- Every event tells of a result, isolated record or version that exists.
SELECT 'event ' || e.event_id, e.task_id
FROM assay.known_events e
LEFT JOIN assay.results r ON e.aggregate_kind = 'result' AND r.name || '/' || r.record_id = e.aggregate_id
LEFT JOIN assay.annotation_tasks t ON t.task_id = e.task_id
LEFT JOIN assay.isolated_records i
    ON e.aggregate_kind = 'isolated_record' AND i.isolated_id::text = e.aggregate_id
LEFT JOIN assay.pipeline_versions v ON e.aggregate_kind = 'version' AND v.version_id::text = e.aggregate_id
WHERE NOT coalesce(CASE e.aggregate_kind
    WHEN 'result' THEN e.revision BETWEEN 1 AND r.revision AND t.record_id = r.record_id
    WHEN 'isolated_record' THEN i.isolated_id IS NOT NULL
    ELSE v.version_id IS NOT NULL END, false)

-- name: event_kind_fits_the_state_told
-- A quarantined event tells of a quarantined task, a completed one does not.
-- Payloads leave with the event: what was delivered was checked before, or not at all.
SELECT 'event ' || event_id, task_id
FROM assay.known_events
WHERE kind IN ('completed', 'quarantined') AND payload IS NOT NULL
  AND (kind = 'quarantined') IS DISTINCT FROM (payload ->> 'state' = 'quarantined')

-- name: last_event_shows_the_result
-- The event of a result's last revision shows the annotation served.
SELECT 'result ' || r.name || '/' || r.record_id, r.task_id
FROM assay.results r
JOIN assay.pipeline_versions v ON v.version_id = r.version_id
JOIN assay.known_events e
    ON e.aggregate_kind = 'result' AND e.aggregate_id = r.name || '/' || r.record_id
    AND e.revision = r.revision AND e.kind <> 'superseded'
WHERE e.task_id IS DISTINCT FROM r.task_id
   OR (e.payload IS NOT NULL
       AND (e.payload ->> 'record_id', e.payload ->> 'input_version', e.payload ->> 'pipeline_version')
           IS DISTINCT FROM (r.record_id, r.input_version::text, v.pipeline_version))

-- name: superseded_task_is_announced
-- Every superseded task has its event.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
CROSS JOIN assay.outbox_horizon h
WHERE t.state = 'superseded' AND t.last_moved_at >= h.forgotten_before
  AND NOT EXISTS (
      SELECT FROM assay.known_events e WHERE e.task_id = t.task_id AND e.kind = 'superseded')

-- name: isolated_record_is_announced
-- Every isolated record and conflict has its event.
SELECT 'isolated ' || i.isolated_id, NULL::int8
FROM assay.isolated_records i
CROSS JOIN assay.outbox_horizon h
LEFT JOIN assay.known_events e
    ON e.aggregate_kind = 'isolated_record' AND e.aggregate_id = i.isolated_id::text
    AND e.kind = CASE i.error_code WHEN 'input_schema_invalid' THEN 'isolated' ELSE 'conflict' END
WHERE e.outbox_id IS NULL AND i.created_at >= h.forgotten_before

-- name: parked_task_is_on_the_work_list
-- A parked task is on the work list, with its due time.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
LEFT JOIN assay.parked_tasks p ON p.task_id = t.task_id
WHERE t.state = 'retry_scheduled'
  AND (p.version_id, p.due_at) IS DISTINCT FROM (t.version_id, t.not_before)

-- name: work_list_holds_waiting_tasks_only
-- The work list holds parked tasks and retries under way, no others.
SELECT 'task ' || p.task_id, p.task_id
FROM assay.parked_tasks p
LEFT JOIN assay.annotation_tasks t ON t.task_id = p.task_id
WHERE NOT coalesce(t.state IN ('retry_scheduled', 'processing'), false)

-- name: held_task_can_be_found
-- A task being processed can be found by a take-over.
-- The work list and the claim batches are all that a take-over looks at.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
LEFT JOIN (
    SELECT task_id FROM assay.parked_tasks
    UNION
    SELECT unnest(task_ids) FROM assay.claim_batches
) found ON found.task_id = t.task_id
WHERE t.state = 'processing' AND found.task_id IS NULL

-- name: committed_offset_has_a_destination
-- Every offset below a checkpoint has a durable destination.
-- Offsets of files start at 0 and have no gaps. A task that is processed again after it had settled or been
-- parked has had its destination.
SELECT 'source ' || c.source_id || ', offset ' || o || ', version ' || c.version_id, NULL::int8
FROM assay.source_checkpoints c
JOIN assay.sources s ON s.source_id = c.source_id AND s.kind = 'file'
CROSS JOIN LATERAL generate_series(0, c.committed_offset - 1) AS o
LEFT JOIN (
    SELECT came.source_id, came.partition_no, came.source_offset, t.version_id
    FROM (
        SELECT source_id, partition_no, source_offset, record_id, input_version FROM assay.inputs
        UNION ALL
        SELECT source_id, partition_no, source_offset, record_id, input_version FROM assay.source_duplicates
    ) came
    JOIN assay.annotation_tasks t
        ON t.record_id = came.record_id AND t.input_version = came.input_version
    WHERE t.state <> 'processing'
       OR EXISTS (
           SELECT FROM assay.task_history h WHERE h.task_id = t.task_id AND h.to_state <> 'processing')
    UNION ALL
    SELECT source_id, partition_no, source_offset, NULL FROM assay.isolated_records
) d ON d.source_id = c.source_id AND d.partition_no = c.partition_no AND d.source_offset = o
    AND coalesce(d.version_id, c.version_id) = c.version_id
WHERE d.source_id IS NULL

-- name: one_input_per_offset
-- An offset brought one input, new or known.
SELECT 'source ' || source_id || ', offset ' || source_offset, NULL::int8
FROM (
    SELECT source_id, partition_no, source_offset FROM assay.inputs
    UNION ALL
    SELECT source_id, partition_no, source_offset FROM assay.source_duplicates
) came
GROUP BY source_id, partition_no, source_offset
HAVING count(*) > 1

-- name: duplicate_is_of_an_input
-- A duplicate offset names an input that exists.
SELECT 'source ' || d.source_id || ', offset ' || d.source_offset, NULL::int8
FROM assay.source_duplicates d
WHERE NOT EXISTS (
          SELECT FROM assay.inputs i WHERE i.record_id = d.record_id AND i.input_version = d.input_version)
  AND NOT EXISTS (
          SELECT FROM assay.annotation_tasks t
          WHERE t.record_id = d.record_id AND t.input_version = d.input_version AND t.state = 'erased')

-- name: position_is_in_a_known_source
-- Every position belongs to a registered source.
SELECT 'source ' || p.source_id, NULL::int8
FROM (
    SELECT source_id FROM assay.inputs UNION SELECT source_id FROM assay.isolated_records
    UNION SELECT source_id FROM assay.source_duplicates UNION SELECT source_id FROM assay.source_checkpoints
) p
LEFT JOIN assay.sources s ON s.source_id = p.source_id
WHERE s.source_id IS NULL

-- name: conflict_has_other_content
-- A conflict names its identity, and its content differs from the input's.
SELECT 'isolated ' || c.isolated_id, NULL::int8
FROM assay.isolated_records c
LEFT JOIN assay.inputs i ON i.record_id = c.record_id AND i.input_version = c.input_version
WHERE c.error_code = 'input_version_conflicts_with_content'
  AND (c.record_id IS NULL OR c.input_version IS NULL OR c.offered_sha256 IS NULL
       OR c.offered_sha256 = i.input_sha256)

-- name: text_is_in_the_vault
-- The text of every input that is not erased is in the vault.
SELECT 'input ' || i.record_id || ' version ' || i.input_version, NULL::int8
FROM assay.inputs i
LEFT JOIN assay_vault.texts x ON x.text_ref = i.encrypted_text_ref
WHERE (x.text_ref IS NULL OR x.subject_id IS DISTINCT FROM i.subject_id)
  AND NOT EXISTS (
      SELECT FROM assay.annotation_tasks t
      WHERE t.record_id = i.record_id AND t.input_version = i.input_version AND t.state = 'erased')

-- name: subject_key_is_in_the_vault
-- A text wrapped by a subject's key has that key.
SELECT 'text ' || x.text_ref, NULL::int8
FROM assay_vault.texts x
LEFT JOIN assay_vault.subject_keys s ON s.subject_id = x.subject_id
WHERE x.subject_id IS NOT NULL AND s.subject_id IS NULL

-- name: sealed_label_is_in_the_vault
-- A sealed label is in the vault, tied to its task and text.
SELECT 'task ' || o.task_id, o.task_id
FROM assay.annotation_outputs o
JOIN assay.annotation_tasks t ON t.task_id = o.task_id
LEFT JOIN assay_vault.labels l ON l.label_ref = o.encrypted_label_ref
WHERE o.encrypted_label_ref IS NOT NULL AND t.state <> 'erased'
  AND (l.task_id, l.text_ref) IS DISTINCT FROM (t.task_id, t.encrypted_text_ref)

-- name: isolated_bytes_are_in_the_vault
-- The bytes of isolated records are in the vault.
SELECT 'isolated ' || i.isolated_id, NULL::int8
FROM assay.isolated_records i
LEFT JOIN assay_vault.raws w ON w.raw_ref = i.raw_ref
WHERE w.raw_ref IS NULL

-- name: version_is_registered_once
-- A digest and a label name one version of a line.
SELECT 'line ' || name || ', version ' || left(pipeline_version, 12), NULL::int8
FROM (
    SELECT name, pipeline_version,
           count(*) OVER (PARTITION BY name, pipeline_version) AS same_digest,
           CASE WHEN label IS NOT NULL THEN count(*) OVER (PARTITION BY name, label) END AS same_label
    FROM assay.pipeline_versions
) v
WHERE same_digest > 1 OR same_label > 1

-- name: version_has_a_release
-- Every version has its release row.
SELECT 'version ' || v.version_id, NULL::int8
FROM assay.pipeline_versions v
LEFT JOIN assay.releases r ON r.version_id = v.version_id
WHERE r.version_id IS NULL

-- name: frozen_release_says_since_when
-- A release is frozen since a time, or not frozen.
SELECT 'version ' || version_id, NULL::int8
FROM assay.releases
WHERE frozen <> (frozen_at IS NOT NULL)

-- name: moves_are_the_codes
-- The database's table of moves equals the code's.
SELECT 'move ' || coalesce(l.move, c.move) || ' from '
       || coalesce(nullif(coalesce(l.from_state, c.from_state), ''), 'nothing') || ' to '
       || coalesce(l.to_state, c.to_state), NULL::int8
FROM (
    SELECT coalesce(from_state::text, '') AS from_state, move::text AS move, to_state::text AS to_state
    FROM assay.legal_moves
) l
FULL JOIN (
    SELECT * FROM unnest(%(from_states)s::text[], %(moves)s::text[], %(to_states)s::text[])
) AS c (from_state, move, to_state)
    ON c.from_state = l.from_state AND c.move = l.move AND c.to_state = l.to_state
WHERE l.move IS NULL OR c.move IS NULL

-- name: one_instance_row
-- The database says once what it is and how its clock runs.
SELECT 'instance rows: ' || count(*), NULL::int8
FROM assay.instance
HAVING count(*) <> 1
