-- The frame of `assay audit`. Each invariant is one query of an audit_*.sql file, named as the invariant,
-- whose rows are what breaks it: a key for people and, where there is one, the task. All run in one snapshot.

-- name: prepare
-- Set-based checks over millions of rows: larger sorts in memory, no time limit, and no nested loops, which a
-- planner chooses for tables that have just grown and knows nothing of yet (550,000 tasks, minutes after they
-- were written: 25 minutes for one check). For this transaction alone.
SELECT set_config('statement_timeout', '0', true), set_config('work_mem', '64MB', true),
       set_config('jit', 'off', true), set_config('enable_nestloop', 'off', true)

-- name: size
-- How much was looked at.
SELECT (SELECT count(*) FROM assay.annotation_tasks), (SELECT count(*) FROM assay.inputs),
       (SELECT count(*) FROM assay.known_events)

-- name: abandoned_tasks
-- Leases that ended long ago and that nobody took over: no worker of that version has run since.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
CROSS JOIN (SELECT assay.assay_now() AS now OFFSET 0) AS clock
WHERE t.state = 'processing'
  AND assay.lease_end(t.lease_until, t.lease_id) < clock.now - make_interval(secs => %(overdue_seconds)s::float8)

-- name: overdue_parked_tasks
-- Parked tasks that have been due for long, and that no pause of low priority holds back.
SELECT 'task ' || t.task_id, t.task_id
FROM assay.annotation_tasks t
CROSS JOIN (SELECT assay.assay_now() AS now OFFSET 0) AS clock
WHERE t.state = 'retry_scheduled'
  AND t.not_before < clock.now - make_interval(secs => %(overdue_seconds)s::float8)
  AND NOT EXISTS (
      SELECT FROM assay.parked_tasks p
      WHERE p.task_id = t.task_id AND p.low AND assay.low_paused(p.version_id))

-- name: definitions
-- Versions with the definition behind the digest.
SELECT version_id, pipeline_version, definition FROM assay.pipeline_versions ORDER BY version_id

-- name: migrations_applied
-- What the database says was applied to it.
SELECT version, name, checksum FROM public.assay_migrations ORDER BY version

-- name: triggers
-- Triggers that are enabled for ordinary sessions, with the function that they call.
SELECT c.relname::text, t.tgname::text, p.proname::text
FROM pg_trigger t
JOIN pg_class c ON c.oid = t.tgrelid
JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname IN ('assay', 'assay_vault')
JOIN pg_proc p ON p.oid = t.tgfoid
WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')

-- name: functions
-- Bodies of our functions as the database has them.
SELECT p.proname::text, p.prosrc
FROM pg_proc p
JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname IN ('assay', 'assay_vault')

-- name: constraints
-- Valid constraints and valid unique indexes without one, as table and name. Not-null marks are left out:
-- servers before 18 do not name them.
SELECT n.nspname || '.' || c.relname || ' ' || k.conname
FROM pg_constraint k
JOIN pg_class c ON c.oid = k.conrelid
JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname IN ('assay', 'assay_vault')
WHERE k.contype IN ('c', 'f', 'p', 'u') AND k.convalidated
UNION ALL
SELECT n.nspname || '.' || c.relname || ' ' || i.relname
FROM pg_index x
JOIN pg_class i ON i.oid = x.indexrelid
JOIN pg_class c ON c.oid = x.indrelid
JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname IN ('assay', 'assay_vault')
WHERE x.indisunique AND x.indisvalid AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.oid)

-- name: sealed_texts
-- Everything that opens a text, for a cursor. Erased inputs have no row here; missing keys are told of by
-- an invariant of their own.
SELECT 'input ' || i.record_id || ' version ' || i.input_version, i.record_id, i.input_version,
       i.input_sha256, x.kek_id, x.wrapped_key, x.subject_id, s.kek_id, s.wrapped_key, x.ciphertext
FROM assay.inputs i
JOIN assay_vault.texts x ON x.text_ref = i.encrypted_text_ref
LEFT JOIN assay_vault.subject_keys s ON s.subject_id = x.subject_id
WHERE x.subject_id IS NULL OR s.subject_id IS NOT NULL

-- name: sealed_labels
-- Everything that opens a label, for a cursor.
SELECT 'task ' || t.task_id, t.task_id, t.record_id, t.input_version, t.input_sha256,
       x.kek_id, x.wrapped_key, x.subject_id, s.kek_id, s.wrapped_key, l.ciphertext
FROM assay.annotation_outputs o
JOIN assay.annotation_tasks t ON t.task_id = o.task_id
JOIN assay_vault.labels l ON l.label_ref = o.encrypted_label_ref
JOIN assay_vault.texts x ON x.text_ref = t.encrypted_text_ref
LEFT JOIN assay_vault.subject_keys s ON s.subject_id = x.subject_id
WHERE x.subject_id IS NULL OR s.subject_id IS NOT NULL

-- name: sealed_raws
-- Everything that opens isolated bytes, for a cursor.
SELECT 'isolated ' || i.isolated_id, i.source_id, i.partition_no, i.source_offset, i.offered_sha256,
       w.kek_id, w.wrapped_key, w.subject_id, s.kek_id, s.wrapped_key, w.ciphertext
FROM assay.isolated_records i
JOIN assay_vault.raws w ON w.raw_ref = i.raw_ref
LEFT JOIN assay_vault.subject_keys s ON s.subject_id = w.subject_id
WHERE w.subject_id IS NULL OR s.subject_id IS NOT NULL

-- name: who
-- The records behind a few tasks, for people.
SELECT t.task_id, t.record_id, t.input_version, t.version_id
FROM assay.annotation_tasks t
WHERE t.task_id = ANY (%(task_ids)s::int8[])
