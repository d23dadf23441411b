-- Fixes and replays: planned in one transaction, let out in pages. A page locks the replay, then its items, then
-- the tasks in key order. What becomes of an item is written by the finish of its task (replay_finish.sql).

-- name: fix_record
-- What mended the cause. Returns its number.
INSERT INTO assay.fixes (name, kind, description, from_version, to_version, author, link, recorded_at)
VALUES (%(name)s::text, %(kind)s::text, %(description)s::text, %(from_version)s::int4, %(to_version)s::int4,
        %(author)s::text, %(link)s::text, assay.assay_now())
RETURNING fix_id

-- name: fix_list
-- Fixes, newest first, with how many replays name each and how many dead letters those resolved.
SELECT f.fix_id AS fix, f.name AS pipeline, f.kind, f.description, a.pipeline_version AS from_version,
       b.pipeline_version AS to_version, f.author, f.link, f.recorded_at,
       (SELECT count(*) FROM assay.replays r WHERE r.fix_id = f.fix_id) AS replays,
       (SELECT count(*) FROM assay.replays r JOIN assay.replay_items i USING (replay_id)
        WHERE r.fix_id = f.fix_id AND i.state = 'succeeded') AS resolved
FROM assay.fixes f
LEFT JOIN assay.pipeline_versions a ON a.version_id = f.from_version
LEFT JOIN assay.pipeline_versions b ON b.version_id = f.to_version
WHERE (%(fix_id)s::int8 IS NULL OR f.fix_id = %(fix_id)s) AND (%(name)s::text IS NULL OR f.name = %(name)s)
ORDER BY f.fix_id DESC
LIMIT %(most)s::int4

-- name: fix_of
-- One fix, for a plan.
SELECT f.kind, f.name, f.from_version, f.to_version, f.description
FROM assay.fixes f WHERE f.fix_id = %(fix_id)s::int8

-- name: replay_plan
-- A replay, planned. Returns its number.
INSERT INTO assay.replays
    (fix_id, stage, first_sample, stop_loss, per_minute, selection, planned_by, planned_at, next_at)
SELECT %(fix_id)s::int8, %(stage)s::text, %(sample)s::int4, %(stop_loss)s::float4, %(per_minute)s::float8,
       %(selection)s::jsonb, %(actor)s::text, clock.now, clock.now
FROM (SELECT assay.assay_now() AS now) AS clock
RETURNING replay_id

-- name: replay_select
-- The dead letters of a plan become its items; those that something bars say so at once and are never let out. Their
-- order is by a hash: the first ones are a fair sample. A dead letter that another replay has is left to that.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
chosen AS (
    SELECT d.dead_letter_id, d.task_id,
           assay.replay_bar(d.dead_letter_id, %(to_version)s::int4, %(stage)s::text, %(most_replays)s::int4) AS bar,
           row_number() OVER (ORDER BY md5(d.dead_letter_id::text), d.dead_letter_id) AS place
    FROM assay.dead_letters d
    JOIN assay.annotation_tasks t ON t.task_id = d.task_id
    JOIN assay.pipeline_versions v ON v.version_id = d.version_id
    JOIN assay.inputs i ON i.record_id = t.record_id AND i.input_version = t.input_version
    JOIN assay.sources s ON s.source_id = i.source_id
    WHERE v.name = %(name)s::text AND d.state IN ('open', 'assigned')
      AND (%(version_id)s::int4 IS NULL OR d.version_id = %(version_id)s)
      AND (%(codes)s::text[] IS NULL OR d.error_code = ANY (%(codes)s))
      AND (%(path)s::text IS NULL OR d.errors @> jsonb_build_array(jsonb_build_object('path', %(path)s)))
      AND (%(source)s::text IS NULL OR coalesce(i.source_name, s.name) = %(source)s OR s.name = %(source)s)
      AND (%(customer)s::text IS NULL OR i.customer = %(customer)s)
      AND (%(document_type)s::text IS NULL OR i.document_type = %(document_type)s)
      AND (%(owner)s::text IS NULL OR d.owner = %(owner)s)
      AND (%(fingerprint)s::text IS NULL OR d.fingerprint = %(fingerprint)s)
      AND (%(ids)s::int8[] IS NULL OR d.dead_letter_id = ANY (%(ids)s))
      AND NOT EXISTS (
          SELECT FROM assay.replay_items o
          WHERE o.dead_letter_id = d.dead_letter_id AND o.state IN ('waiting', 'released'))
    ORDER BY place
    LIMIT %(limit)s::int8
)
INSERT INTO assay.replay_items (replay_id, place, dead_letter_id, task_id, state, reason, ended_at)
SELECT %(replay_id)s::int8, c.place, c.dead_letter_id, c.task_id,
       CASE WHEN c.bar IS NULL THEN 'waiting' ELSE 'barred' END, c.bar,
       CASE WHEN c.bar IS NOT NULL THEN clock.now END
FROM chosen c CROSS JOIN clock

-- name: replay_act
-- What was done with a replay.
INSERT INTO assay.replay_acts (replay_id, kind, at, actor, reason)
VALUES (%(replay_id)s::int8, %(kind)s::text, assay.assay_now(), %(actor)s::text, %(reason)s::text)

-- name: replay_move
-- The state of a replay, if it is one of those that may become it.
UPDATE assay.replays SET state = %(state)s::text
WHERE replay_id = %(replay_id)s::int8 AND state = ANY (%(from_states)s::text[])
RETURNING replay_id

-- name: replay_end_waiting
-- Of a replay that is stopped nothing more is let out; its dead letters are free for another one.
UPDATE assay.replay_items SET state = 'barred', reason = 'replay_stopped', ended_at = assay.assay_now()
WHERE replay_id = %(replay_id)s::int8 AND state = 'waiting'

-- name: replay_list
-- Replays with their counts, newest first.
SELECT r.replay_id AS replay, r.fix_id AS fix, f.kind, f.name AS pipeline, f.description, r.stage, r.state,
       r.first_sample, r.stop_loss, r.per_minute, r.selection, r.planned_by, r.planned_at,
       a.pipeline_version AS from_version, b.pipeline_version AS to_version, n.*
FROM assay.replays r
JOIN assay.fixes f USING (fix_id)
LEFT JOIN assay.pipeline_versions a ON a.version_id = f.from_version
LEFT JOIN assay.pipeline_versions b ON b.version_id = f.to_version
CROSS JOIN LATERAL (
    SELECT count(*) AS items,
           count(*) FILTER (WHERE state = 'waiting') AS waiting,
           count(*) FILTER (WHERE state = 'released') AS released,
           count(*) FILTER (WHERE state = 'succeeded') AS succeeded,
           count(*) FILTER (WHERE state = 'failed') AS failed,
           count(*) FILTER (WHERE state = 'overtaken') AS overtaken,
           count(*) FILTER (WHERE state = 'barred') AS barred
    FROM assay.replay_items i WHERE i.replay_id = r.replay_id
) AS n
WHERE %(replay_id)s::int8 IS NULL OR r.replay_id = %(replay_id)s
ORDER BY r.replay_id DESC
LIMIT %(most)s::int4

-- name: replay_history
-- What was done with a replay, in order.
SELECT kind, at, actor, reason FROM assay.replay_acts WHERE replay_id = %(replay_id)s::int8 ORDER BY act_id

-- name: replay_report
-- Before and after, by the code that a dead letter had: what became of its items, where the failures fell, and the
-- calls and cost of the attempts that the replay let out.
SELECT d.error_code AS code, i.state, i.reason AS now, count(*) AS items, sum(c.calls)::int8 AS calls,
       sum(c.cost) AS cost
FROM assay.replay_items i
JOIN assay.dead_letters d USING (dead_letter_id)
CROSS JOIN LATERAL (
    SELECT count(*) AS calls, sum(c.cost) AS cost FROM assay.calls c
    WHERE c.task_id = i.runs_task_id AND c.recorded_at >= i.released_at
      AND (i.ended_at IS NULL OR c.recorded_at <= i.ended_at)
) AS c
WHERE i.replay_id = %(replay_id)s::int8
GROUP BY d.error_code, i.state, i.reason
ORDER BY count(*) DESC, d.error_code, i.state, i.reason

-- name: replay_expected
-- What one annotation of a version has cost so far, on average: calls, and money where it is known.
SELECT count(*)::float8 / nullif(count(DISTINCT c.task_id), 0) AS calls,
       sum(c.cost) / nullif(count(DISTINCT c.task_id) FILTER (WHERE c.cost IS NOT NULL), 0) AS cost
FROM assay.calls c
WHERE c.version_id = %(version_id)s::int4

-- name: replay_kept
-- Whether any dead letter of a version still has the response that was refused.
SELECT EXISTS (
    SELECT FROM assay.dead_letters d
    JOIN assay_vault.responses x ON x.task_id = d.task_id
    WHERE d.version_id = %(version_id)s::int4 AND d.state IN ('open', 'assigned') AND x.expires_at > clock.now)
FROM (SELECT assay.assay_now() AS now) AS clock

-- name: replay_barred
-- Why items of a replay are barred, and how many of each.
SELECT reason, count(*) AS items FROM assay.replay_items
WHERE replay_id = %(replay_id)s::int8 AND state = 'barred'
GROUP BY reason ORDER BY count(*) DESC, reason

-- name: replay_hold
-- The replay, locked: one page at a time, whoever runs it.
SELECT r.state, r.stage, r.first_sample, r.stop_loss, r.per_minute, f.kind, f.to_version
FROM assay.replays r JOIN assay.fixes f USING (fix_id)
WHERE r.replay_id = %(replay_id)s::int8
FOR UPDATE OF r

-- name: replay_overtake
-- Items whose task was settled by something else than its own attempt: a newer version of the record, an erasure.
-- A dead letter that nothing has resolved is no longer being replayed.
WITH gone AS (
    UPDATE assay.replay_items i
    SET state = 'overtaken', reason = t.state::text, ended_at = t.last_moved_at
    FROM assay.annotation_tasks t
    WHERE i.replay_id = %(replay_id)s::int8 AND i.state = 'released' AND t.task_id = i.runs_task_id
      AND t.state NOT IN ('processing', 'retry_scheduled')
    RETURNING i.dead_letter_id
)
UPDATE assay.dead_letters d SET state = CASE WHEN d.owner IS NULL THEN 'open' ELSE 'assigned' END
FROM gone WHERE d.dead_letter_id = gone.dead_letter_id AND d.state = 'replaying'

-- name: replay_counts
-- Items by state.
SELECT count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'released'),
       count(*) FILTER (WHERE state = 'succeeded'), count(*) FILTER (WHERE state = 'failed'),
       count(*) FILTER (WHERE state = 'overtaken'), count(*) FILTER (WHERE state = 'barred')
FROM assay.replay_items WHERE replay_id = %(replay_id)s::int8

-- name: replay_page
-- The next items, their dead letters and tasks locked in key order, and what bars each of them by now.
SELECT i.place, i.dead_letter_id, i.task_id,
       assay.replay_bar(i.dead_letter_id, %(to_version)s::int4, %(stage)s::text, %(most_replays)s::int4)
FROM (
    SELECT place, dead_letter_id, task_id FROM assay.replay_items
    WHERE replay_id = %(replay_id)s::int8 AND state = 'waiting'
    ORDER BY place LIMIT %(most)s::int4
) AS i
JOIN assay.annotation_tasks t ON t.task_id = i.task_id
ORDER BY t.record_id, t.input_version, t.version_id
FOR UPDATE OF t

-- name: replay_bar_items
-- Items that something has come to bar since they were planned.
UPDATE assay.replay_items i
SET state = 'barred', reason = u.bar, ended_at = assay.assay_now()
FROM unnest(%(places)s::int4[], %(bars)s::text[]) AS u (place, bar)
WHERE i.replay_id = %(replay_id)s::int8 AND i.place = u.place AND i.state = 'waiting'

-- name: replay_restart
-- The same annotation again. Its attempts and its age begin anew, and so does its first pass: the fix says why.
UPDATE assay.annotation_tasks t
SET state = 'processing', attempt_id = u.attempt_id, lease_until = clock.now, attempts = 1, aged_seconds = 0,
    first_pass_code = NULL, error_code = NULL, replay_id = %(replay_id)s::int8,
    moves = t.moves + 1, last_move = 'replay', last_moved_at = clock.now, last_actor = %(actor)s::text,
    last_reason = 'replay:' || %(replay_id)s::int8
FROM unnest(%(task_ids)s::int8[], %(attempt_ids)s::uuid[]) AS u (task_id, attempt_id)
CROSS JOIN (SELECT assay.assay_now() AS now OFFSET 0) AS clock
WHERE t.task_id = u.task_id AND t.state = 'quarantined'

-- name: replay_inputs
-- What the newer version's annotations are claimed with: identity, place in the source, attributes.
SELECT i.record_id, i.input_version, i.encrypted_text_ref, i.input_sha256, i.source_id, i.partition_no,
       i.source_offset, i.source_line, i.priority, t.task_id
FROM assay.annotation_tasks t
JOIN assay.inputs i ON i.record_id = t.record_id AND i.input_version = t.input_version
WHERE t.task_id = ANY (%(task_ids)s::int8[])

-- name: replay_link
-- The newer version's annotations, which this transaction has claimed and parked, know what they replay.
UPDATE assay.annotation_tasks t
SET replay_of = u.task_id, replay_id = %(replay_id)s::int8
FROM unnest(%(task_ids)s::int8[], %(runs)s::int8[]) AS u (task_id, runs)
WHERE t.task_id = u.runs

-- name: replay_pace
-- At so many a minute: each is due a little after the one before, from where the replay's last page ended.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
paced AS MATERIALIZED (
    SELECT u.task_id, greatest(clock.now, r.next_at) + make_interval(secs => (u.place - 1) * 60 / r.per_minute) AS due
    FROM unnest(%(runs)s::int8[]) WITH ORDINALITY AS u (task_id, place)
    CROSS JOIN clock
    JOIN assay.replays r ON r.replay_id = %(replay_id)s::int8 AND r.per_minute IS NOT NULL
),
tasks AS (
    UPDATE assay.annotation_tasks t SET not_before = p.due FROM paced p WHERE t.task_id = p.task_id
),
listed AS (
    UPDATE assay.parked_tasks k SET due_at = p.due FROM paced p WHERE k.task_id = p.task_id
)
UPDATE assay.replays r
SET next_at = greatest(clock.now, r.next_at) + make_interval(secs => cardinality(%(runs)s::int8[]) * 60 / r.per_minute)
FROM clock
WHERE r.replay_id = %(replay_id)s::int8 AND r.per_minute IS NOT NULL

-- name: replay_release
-- The items are out; their dead letters are being replayed.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
out AS (
    UPDATE assay.replay_items i
    SET state = 'released', runs_task_id = u.runs, released_at = clock.now
    FROM unnest(%(places)s::int4[], %(runs)s::int8[]) AS u (place, runs), clock
    WHERE i.replay_id = %(replay_id)s::int8 AND i.place = u.place AND i.state = 'waiting'
    RETURNING i.dead_letter_id
)
UPDATE assay.dead_letters d SET state = 'replaying'
FROM out WHERE d.dead_letter_id = out.dead_letter_id AND d.state IN ('open', 'assigned')
