-- Events leave: buckets leased to publishers, receipts of what was delivered, events that a sink refuses.

-- All events of an aggregate are in one bucket, and a bucket has one publisher at a time.
CREATE FUNCTION assay.outbox_bucket(aggregate_kind text, aggregate_id text) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (hashtextextended(aggregate_kind || E'\x1f' || aggregate_id, 0) & 63)::smallint
$$;

-- The bucket leads the only index: a publisher reads its own events in order, whatever the backlog of others.
-- Finished rows are deleted, so vacuum goes by a number of rows, not by a share of a table that is mostly empty.
ALTER TABLE assay.outbox_events
    DROP COLUMN published_at,
    ADD COLUMN bucket smallint NOT NULL
        GENERATED ALWAYS AS (assay.outbox_bucket(aggregate_kind, aggregate_id)) STORED;
ALTER TABLE assay.outbox_events DROP CONSTRAINT outbox_events_pkey;
ALTER TABLE assay.outbox_events ADD CONSTRAINT outbox_events_pkey PRIMARY KEY (bucket, outbox_id);
ALTER TABLE assay.outbox_events SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 10000
);

-- Publishers that live, or did until their lease ended. All of them send to one sink.
CREATE TABLE assay.outbox_publishers (
    publisher   text COLLATE "C" PRIMARY KEY CHECK (publisher <> ''),
    sink        text NOT NULL CHECK (sink <> ''),
    started_at  timestamptz NOT NULL,
    lease_until timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Who publishes a bucket. `revision` rises with every change of hands: what a publisher does for a bucket names
-- the revision under which it read.
CREATE TABLE assay.outbox_buckets (
    bucket      smallint PRIMARY KEY CHECK (bucket BETWEEN 0 AND 63),
    owner       text COLLATE "C",
    lease_until timestamptz,
    revision    bigint NOT NULL DEFAULT 0 CHECK (revision >= 0),
    CONSTRAINT bucket_is_leased_to_somebody CHECK ((owner IS NULL) = (lease_until IS NULL))
) WITH (fillfactor = 25);
INSERT INTO assay.outbox_buckets (bucket) SELECT generate_series(0, 63);

-- What was delivered: the row of the event without its payload, by day of delivery. Partitions are made by
-- publishers ahead of time and dropped whole.
CREATE TABLE assay.outbox_receipts (
    outbox_id      bigint NOT NULL,
    event_id       uuid NOT NULL,
    aggregate_kind text NOT NULL,
    aggregate_id   text COLLATE "C" NOT NULL,
    kind           text NOT NULL,
    revision       integer NOT NULL,
    task_id        bigint,
    created_at     timestamptz NOT NULL,
    published_at   timestamptz NOT NULL,
    sink           text NOT NULL,
    position       text
) PARTITION BY RANGE (published_at);
-- A record's receipts are looked up seldom; rows arrive nearly in the order of tasks.
CREATE INDEX outbox_receipts_task ON assay.outbox_receipts
    USING brin (task_id int8_minmax_multi_ops) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX outbox_receipts_aggregate ON assay.outbox_receipts (aggregate_id) WHERE task_id IS NULL;

-- Receipts of deliveries before this moment may be gone: the audit asks for nothing older.
CREATE TABLE assay.outbox_horizon (
    only_row         boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    forgotten_before timestamptz NOT NULL DEFAULT '-infinity',
    changed_at       timestamptz,
    changed_by       text
);
INSERT INTO assay.outbox_horizon DEFAULT VALUES;

-- The event at the head of an aggregate that the sink refuses: the aggregate waits, all others go on.
CREATE TABLE assay.outbox_failures (
    aggregate_kind  text NOT NULL,
    aggregate_id    text COLLATE "C" NOT NULL,
    event_id        uuid NOT NULL,
    bucket          smallint NOT NULL,
    outbox_id       bigint NOT NULL,
    kind            text NOT NULL,
    revision        integer NOT NULL,
    reason          text NOT NULL CHECK (reason ~ '^[a-z][a-z0-9_]{0,79}$'),
    tries           integer NOT NULL CHECK (tries >= 1),
    first_failed_at timestamptz NOT NULL,
    last_failed_at  timestamptz NOT NULL,
    not_before      timestamptz NOT NULL,
    PRIMARY KEY (aggregate_kind, aggregate_id)
);

-- Refused events that a person took out of the way, whole: never sent, never lost.
CREATE TABLE assay.outbox_parked (
    outbox_id      bigint PRIMARY KEY,
    event_id       uuid NOT NULL UNIQUE,
    aggregate_kind text NOT NULL,
    aggregate_id   text COLLATE "C" NOT NULL,
    kind           text NOT NULL,
    revision       integer NOT NULL,
    task_id        bigint,
    payload        jsonb NOT NULL,
    created_at     timestamptz NOT NULL,
    failure        text NOT NULL,
    tries          integer NOT NULL,
    parked_at      timestamptz NOT NULL,
    parked_by      text NOT NULL CHECK (parked_by <> ''),
    reason         text NOT NULL CHECK (reason <> '')
);
CREATE TRIGGER outbox_parked_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON assay.outbox_parked
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();
CREATE TRIGGER outbox_buckets_stay BEFORE DELETE OR TRUNCATE ON assay.outbox_buckets
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();
CREATE TRIGGER outbox_horizon_stays BEFORE DELETE OR TRUNCATE ON assay.outbox_horizon
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();

-- Every event that the database knows, wherever it stands. Payloads leave with the event.
CREATE VIEW assay.known_events AS
SELECT 'waiting' AS place, outbox_id, event_id, aggregate_kind, aggregate_id, kind, revision, task_id, payload,
       created_at, NULL::timestamptz AS published_at, NULL::text AS sink, NULL::text AS position
FROM assay.outbox_events
UNION ALL
SELECT 'published', outbox_id, event_id, aggregate_kind, aggregate_id, kind, revision, task_id, NULL,
       created_at, published_at, sink, position
FROM assay.outbox_receipts
UNION ALL
SELECT 'parked', outbox_id, event_id, aggregate_kind, aggregate_id, kind, revision, task_id, payload,
       created_at, NULL, NULL, NULL
FROM assay.outbox_parked;

-- Partitions for today (UTC) and `ahead` days more; how many were made. A partition is made apart and attached:
-- that holds up neither publishers nor readers.
CREATE FUNCTION assay.make_receipt_partitions(ahead integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    today date := (assay.assay_now() AT TIME ZONE 'UTC')::date;
    of_day date;
    partition_name text;
    made integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(1668508013, 1);
    FOR of_day IN SELECT today + n FROM generate_series(0, ahead) AS n LOOP
        partition_name := 'outbox_receipts_' || to_char(of_day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('assay.' || partition_name) IS NOT NULL;
        EXECUTE format('CREATE TABLE assay.%I (LIKE assay.outbox_receipts INCLUDING DEFAULTS)', partition_name);
        EXECUTE format(
            'ALTER TABLE assay.outbox_receipts ATTACH PARTITION assay.%I FOR VALUES FROM (%L) TO (%L)',
            partition_name, of_day || ' 00:00:00+00', (of_day + 1) || ' 00:00:00+00');
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;

-- Drop the partitions of days that ended before `before`, and move the horizon with them; the days dropped.
CREATE FUNCTION assay.drop_receipt_partitions(before timestamptz, actor text) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    last_day date := (before AT TIME ZONE 'UTC')::date;
    partition_name text;
    dropped integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(1668508013, 1);
    FOR partition_name IN
        SELECT c.relname FROM pg_inherits i
        JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'assay.outbox_receipts'::regclass
          AND to_date(right(c.relname, 8), 'YYYYMMDD') < last_day
        ORDER BY c.relname
    LOOP
        EXECUTE format('DROP TABLE assay.%I', partition_name);
        dropped := dropped + 1;
    END LOOP;
    UPDATE assay.outbox_horizon
    SET forgotten_before = greatest(forgotten_before, last_day::timestamp AT TIME ZONE 'UTC'),
        changed_at = assay.assay_now(), changed_by = actor
    WHERE dropped > 0;
    RETURN dropped;
END
$$;
