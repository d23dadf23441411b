-- Sources, their checkpoints, and what was isolated from them.

-- name: register_source
-- A content under a name and mapping is one source, however often it is read.
INSERT INTO assay.sources (kind, name, fingerprint, mapping, total, first_read_at)
VALUES (%(kind)s, %(name)s, %(fingerprint)s, %(mapping)s, %(total)s, assay.assay_now())
ON CONFLICT (kind, name, fingerprint, mapping) DO UPDATE SET kind = excluded.kind
RETURNING source_id

-- name: read_checkpoint
-- How far a version has come in a partition.
SELECT committed_offset FROM assay.source_checkpoints
WHERE source_id = %(source_id)s AND version_id = %(version_id)s AND partition_no = %(partition)s

-- name: read_position
-- How far a partition has been read by whichever version.
SELECT max(committed_offset) FROM assay.source_checkpoints
WHERE source_id = %(source_id)s AND partition_no = %(partition)s

-- name: commit_offset
-- Never backwards: of two runs on one source, each commits what it knows to be done. `floor` is how far the database
-- has told this worker that the partition was read, its own commits included. A database that knows less by now has
-- gone back (a failover to a standby that was behind): what it has forgotten would never be read again, so nothing is
-- written. Returns how far it knows the partition to be read.
WITH known AS MATERIALIZED (
    SELECT coalesce(max(committed_offset), 0) AS up_to FROM assay.source_checkpoints
    WHERE source_id = %(source_id)s::int4 AND partition_no = %(partition)s::int4
),
written AS (
    INSERT INTO assay.source_checkpoints AS c
        (source_id, version_id, partition_no, committed_offset, updated_at)
    SELECT %(source_id)s::int4, %(version_id)s::int4, %(partition)s::int4, %(offset)s::int8, assay.assay_now()
    FROM known WHERE known.up_to >= %(floor)s::int8
    ON CONFLICT (source_id, version_id, partition_no) DO UPDATE SET
        committed_offset = greatest(c.committed_offset, excluded.committed_offset),
        updated_at = excluded.updated_at
    WHERE c.committed_offset < excluded.committed_offset
)
SELECT up_to FROM known

-- name: isolate
-- Isolation first, then the offset is done. The same position isolated again changes nothing. Downstream and
-- alerts hear of it through the outbox.
WITH clock AS MATERIALIZED (SELECT assay.assay_now() AS now),
offered AS MATERIALIZED (
    SELECT * FROM unnest(
        %(partitions)b::int4[], %(offsets)b::int8[], %(lines)b::int8[], %(error_codes)b::text[],
        %(error_types)b::text[], %(paths)b::text[], %(record_ids)b::text[], %(input_versions)b::int4[],
        %(sha256s)b::bytea[], %(subject_ids)b::text[], %(wrapped_keys)b::bytea[],
        %(ciphertexts)b::bytea[], %(timestamps_ms)b::int8[], %(attributes)b::text[]
    ) AS u (partition_no, source_offset, source_line, error_code, error_type, path, record_id,
            input_version, offered_sha256, subject_id, wrapped_key, ciphertext, timestamp_ms, attributes)
),
isolated AS (
    INSERT INTO assay.isolated_records
        (source_id, partition_no, source_offset, source_line, error_code, error_type, path, record_id,
         input_version, offered_sha256, raw_ref, source_timestamp, attributes, created_at)
    SELECT %(source_id)b::int4, o.partition_no, o.source_offset, o.source_line, o.error_code, o.error_type,
           o.path, o.record_id, o.input_version, o.offered_sha256, nextval('assay_vault.refs'),
           to_timestamp(o.timestamp_ms / 1000.0::float8), o.attributes::jsonb, clock.now
    FROM offered o, clock
    ORDER BY o.partition_no, o.source_offset
    ON CONFLICT (source_id, partition_no, source_offset) DO NOTHING
    RETURNING *
),
vaulted AS (
    INSERT INTO assay_vault.raws (raw_ref, subject_id, kek_id, wrapped_key, ciphertext)
    SELECT i.raw_ref, o.subject_id, %(kek_id)b::text, o.wrapped_key, o.ciphertext
    FROM isolated i
    JOIN offered o ON o.partition_no = i.partition_no AND o.source_offset = i.source_offset
),
announced AS (
    INSERT INTO assay.outbox_events
        (event_id, aggregate_kind, aggregate_id, kind, revision, payload, created_at)
    SELECT assay.event_id('isolated_record', i.isolated_id::text, e.kind, 1, instance.restore_epoch),
           'isolated_record', i.isolated_id::text, e.kind, 1,
           jsonb_build_object(
               'source', s.name, 'partition', i.partition_no, 'offset', i.source_offset,
               'line', i.source_line, 'error_code', i.error_code, 'error_type', i.error_type,
               'path', i.path, 'record_id', i.record_id, 'input_version', i.input_version),
           i.created_at
    FROM isolated i
    JOIN assay.sources s ON s.source_id = i.source_id
    CROSS JOIN assay.instance instance
    CROSS JOIN LATERAL (
        SELECT CASE i.error_code WHEN 'input_schema_invalid' THEN 'isolated' ELSE 'conflict' END AS kind) AS e
)
SELECT count(*) FROM isolated
