-- The whole state of assay. Two schemas: `assay` for states, ledgers and events, `assay_vault` for what is
-- secret. Nothing in `assay` holds record text, responses or free-text label fields.

CREATE SCHEMA assay;
CREATE SCHEMA assay_vault;
REVOKE ALL ON SCHEMA assay, assay_vault FROM PUBLIC;

-- One row about this database. Only a database marked as test or drill may bend the clock.
CREATE TABLE assay.instance (
    only_row      boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    kind          text NOT NULL DEFAULT 'production' CHECK (kind IN ('production', 'test', 'drill')),
    clock_real    timestamptz NOT NULL DEFAULT clock_timestamp(),
    clock_shown   timestamptz NOT NULL DEFAULT clock_timestamp(),
    clock_scale   double precision NOT NULL DEFAULT 1 CHECK (clock_scale >= 0),
    restore_epoch integer NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO assay.instance DEFAULT VALUES;

-- The only clock that SQL reads. Statements call it once, in a materialised CTE.
CREATE FUNCTION assay.assay_now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT CASE i.kind
        WHEN 'production' THEN clock_timestamp()
        ELSE i.clock_shown + (clock_timestamp() - i.clock_real) * i.clock_scale
    END
    FROM assay.instance i
$$;

CREATE TYPE assay.task_state AS ENUM (
    'processing', 'retry_scheduled', 'auto_candidate', 'review_pending', 'reviewed',
    'rejected', 'quarantined', 'shadowed', 'superseded', 'erased'
);
CREATE TYPE assay.task_move AS ENUM (
    'claim', 'take_over', 'accept', 'refer', 'observe', 'park', 'give_up', 'dead_letter', 'demote',
    'withdraw', 'approve', 'correct', 'reject', 'amend', 'reopen', 'replay', 'refer_dead_letter',
    'close', 'supersede', 'erase'
);

-- The table of legal moves (from_state NULL: the task did not exist). assay.domain.lifecycle holds the
-- same rows; a test compares the two.
CREATE TABLE assay.legal_moves (
    from_state assay.task_state,
    move       assay.task_move NOT NULL,
    to_state   assay.task_state NOT NULL,
    UNIQUE NULLS NOT DISTINCT (from_state, move, to_state)
);
INSERT INTO assay.legal_moves VALUES
    (NULL, 'claim', 'processing'),
    ('retry_scheduled', 'claim', 'processing'),
    ('shadowed', 'claim', 'processing'),
    ('processing', 'take_over', 'processing'),
    ('processing', 'accept', 'auto_candidate'),
    ('processing', 'refer', 'review_pending'),
    ('processing', 'observe', 'shadowed'),
    ('processing', 'park', 'retry_scheduled'),
    ('processing', 'dead_letter', 'quarantined'),
    ('retry_scheduled', 'give_up', 'quarantined'),
    ('auto_candidate', 'demote', 'review_pending'),
    ('auto_candidate', 'withdraw', 'quarantined'),
    ('review_pending', 'withdraw', 'quarantined'),
    ('review_pending', 'approve', 'reviewed'),
    ('review_pending', 'correct', 'reviewed'),
    ('review_pending', 'reject', 'rejected'),
    ('reviewed', 'amend', 'reviewed'),
    ('reviewed', 'reopen', 'review_pending'),
    ('rejected', 'reopen', 'review_pending'),
    ('quarantined', 'replay', 'processing'),
    ('quarantined', 'refer_dead_letter', 'review_pending'),
    ('quarantined', 'close', 'rejected');
INSERT INTO assay.legal_moves
SELECT s, 'supersede', 'superseded' FROM unnest(enum_range(NULL::assay.task_state)) s
WHERE s NOT IN ('processing', 'superseded', 'erased');
INSERT INTO assay.legal_moves
SELECT s, 'erase', 'erased' FROM unnest(enum_range(NULL::assay.task_state)) s WHERE s <> 'erased';

-- A pipeline version is the digest of everything that can change an answer. version_id is its short
-- stand-in in keys; pipeline_version is the digest itself, in hex.
CREATE TABLE assay.pipeline_versions (
    version_id       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name             text COLLATE "C" NOT NULL,
    pipeline_version text COLLATE "C" NOT NULL CHECK (pipeline_version ~ '^[0-9a-f]{64}$'),
    label            text COLLATE "C",
    definition       jsonb NOT NULL,
    code_commit      text,
    call_reserve     numeric NOT NULL DEFAULT 0 CHECK (call_reserve >= 0),
    registered_at    timestamptz NOT NULL,
    UNIQUE (name, pipeline_version),
    UNIQUE (name, label)
);

-- One release row per version, from its registration on. Finish reads it under the version's shared
-- advisory lock; freeze, roll back and stage changes write it under the exclusive one.
CREATE TABLE assay.releases (
    version_id    integer PRIMARY KEY REFERENCES assay.pipeline_versions,
    stage         text NOT NULL DEFAULT 'unproven'
                  CHECK (stage IN ('unproven', 'offline', 'shadow', 'canary', 'retired', 'rolled_back')),
    share         double precision CHECK (share BETWEEN 0 AND 1),
    frozen        boolean NOT NULL DEFAULT false,
    frozen_at     timestamptz,
    frozen_reason text,
    frozen_by     text,
    revision      integer NOT NULL DEFAULT 0 CHECK (revision >= 0),
    CHECK (frozen = (frozen_at IS NOT NULL))
);

-- A source is one content under one name: a file and its SHA-256, later a topic.
CREATE TABLE assay.sources (
    source_id     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind          text NOT NULL,
    name          text COLLATE "C" NOT NULL,
    fingerprint   text COLLATE "C" NOT NULL,
    mapping       text COLLATE "C" NOT NULL,
    total         bigint CHECK (total >= 0),
    first_read_at timestamptz NOT NULL,
    UNIQUE (kind, name, fingerprint, mapping)
);

-- How far one pipeline version has come in one partition: every offset below committed_offset has a
-- durable destination.
CREATE TABLE assay.source_checkpoints (
    source_id        integer NOT NULL REFERENCES assay.sources,
    version_id       integer NOT NULL REFERENCES assay.pipeline_versions,
    partition_no     integer NOT NULL,
    committed_offset bigint NOT NULL CHECK (committed_offset >= 0),
    updated_at       timestamptz NOT NULL,
    PRIMARY KEY (source_id, version_id, partition_no)
);

-- An input: identity, content fingerprint, where it first came from. The first content of an identity stays.
CREATE TABLE assay.inputs (
    record_id          text COLLATE "C" NOT NULL CHECK (record_id <> ''),
    input_version      integer NOT NULL CHECK (input_version >= 1),
    input_sha256       bytea NOT NULL CHECK (octet_length(input_sha256) = 32),
    encrypted_text_ref bigint NOT NULL,
    source_id          integer NOT NULL,
    partition_no       integer NOT NULL,
    source_offset      bigint NOT NULL,
    source_line        bigint,
    document_type      text,
    customer           text,
    subject_id         text,
    language           text,
    sensitivity        text,
    jurisdiction       text,
    schema_version     text,
    ocr_version        text,
    priority           text,
    correlation_id     text,
    trace_parent       text,
    first_seen_at      timestamptz NOT NULL,
    PRIMARY KEY (record_id, input_version)
);

-- An annotation: one row per (record_id, input_version, version). Narrow, and no index touches a column
-- that finish changes (not even in a predicate), so that finishes stay HOT. Parked work and leases that may
-- have expired are found through parked_tasks and claim_batches instead. Workers that die are counted apart
-- (take_overs): they must not use up the attempts of records that were never called. aged_seconds is the time
-- spent in attempts and in waits that somebody asked for; a stopped or drained run does not age its tasks.
CREATE TABLE assay.annotation_tasks (
    task_id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    record_id           text COLLATE "C" NOT NULL,
    input_version       integer NOT NULL,
    version_id          integer NOT NULL,
    input_sha256        bytea NOT NULL,
    encrypted_text_ref  bigint NOT NULL,
    state               assay.task_state NOT NULL,
    attempt_id          uuid,
    lease_until         timestamptz,
    not_before          timestamptz,
    attempts            integer NOT NULL CHECK (attempts >= 0),
    take_overs          integer NOT NULL DEFAULT 0 CHECK (take_overs >= 0),
    aged_seconds        double precision NOT NULL DEFAULT 0,
    first_pass_code     text,
    error_code          text,
    review_reason       text,
    quality_probability real NOT NULL CHECK (quality_probability BETWEEN 0 AND 1),
    quality_selected    boolean NOT NULL,
    first_claimed_at    timestamptz NOT NULL,
    replay_of           bigint,
    moves               integer NOT NULL,
    last_move           assay.task_move NOT NULL,
    last_moved_at       timestamptz NOT NULL,
    last_actor          text NOT NULL,
    last_reason         text,
    UNIQUE (record_id, input_version, version_id),
    CONSTRAINT lease_while_processing CHECK (
        (state = 'processing') = (attempt_id IS NOT NULL)
        AND (state = 'processing') = (lease_until IS NOT NULL)),
    CONSTRAINT due_while_parked CHECK ((state = 'retry_scheduled') = (not_before IS NOT NULL)),
    CONSTRAINT code_while_quarantined CHECK (state <> 'quarantined' OR error_code IS NOT NULL),
    CONSTRAINT reason_while_in_review CHECK (state <> 'review_pending' OR review_reason IS NOT NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- Every move of every task, written by the trigger below in the same transaction. attempt_id is the
-- attempt that the move started or ended.
CREATE TABLE assay.task_history (
    history_id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id             bigint NOT NULL,
    at                  timestamptz NOT NULL,
    move                assay.task_move NOT NULL,
    from_state          assay.task_state,
    to_state            assay.task_state NOT NULL,
    attempt_id          uuid,
    replaced_attempt_id uuid,
    actor               text NOT NULL,
    reason              text
);
CREATE INDEX task_history_task ON assay.task_history (task_id);

-- The ledger of money and time: one row per request to a provider, failed and lost ones included.
CREATE TABLE assay.calls (
    call_id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id          bigint NOT NULL,
    attempt_id       uuid NOT NULL,
    version_id       integer NOT NULL,
    pass_number      smallint NOT NULL CHECK (pass_number IN (1, 2)),
    outcome          text NOT NULL CHECK (outcome IN
                     ('accepted', 'rejected', 'failed', 'lease_lost', 'outcome_unknown')),
    code             text,
    billed           boolean NOT NULL,
    model            text,
    request_id       text,
    http_status      integer,
    finish_reason    text,
    input_tokens     bigint,
    output_tokens    bigint,
    cached_tokens    bigint,
    reasoning_tokens bigint,
    cost             numeric,
    latency_ms       real,
    response_bytes   bigint,
    recorded_at      timestamptz NOT NULL
);
CREATE INDEX calls_task ON assay.calls (task_id);

-- What an annotation's finishing attempt produced. label_json holds the fields that are not sensitive.
-- stratum (the label's category) and what follows are the second quality draw, made at finish.
CREATE TABLE assay.annotation_outputs (
    task_id             bigint PRIMARY KEY,
    attempt_id          uuid NOT NULL,
    label_json          jsonb,
    encrypted_label_ref bigint,
    confidence          numeric,
    accept_at           numeric,
    first_pass_code     text,
    second_pass_code    text,
    repaired            boolean NOT NULL DEFAULT false,
    stratum             text,
    stratum_probability real CHECK (stratum_probability BETWEEN 0 AND 1),
    stratum_selected    boolean NOT NULL DEFAULT false,
    finished_at         timestamptz NOT NULL
);

-- What downstream upserts: one row per pipeline line and record, pointing at the serving annotation.
CREATE TABLE assay.results (
    name          text COLLATE "C" NOT NULL,
    record_id     text COLLATE "C" NOT NULL,
    task_id       bigint NOT NULL,
    input_version integer NOT NULL,
    version_id    integer NOT NULL,
    revision      integer NOT NULL CHECK (revision >= 1),
    updated_at    timestamptz NOT NULL,
    PRIMARY KEY (name, record_id)
);

CREATE TABLE assay.dead_letters (
    dead_letter_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id          bigint NOT NULL,
    attempt_id       uuid NOT NULL,
    version_id       integer NOT NULL,
    error_code       text NOT NULL,
    failure_class    text NOT NULL,
    kind             text,
    errors           jsonb NOT NULL,
    first_pass_code  text,
    confidence       numeric,
    accept_at        numeric,
    attempts         integer NOT NULL,
    first_attempt_at timestamptz NOT NULL,
    last_attempt_at  timestamptz NOT NULL,
    state            text NOT NULL DEFAULT 'open'
                     CHECK (state IN ('open', 'assigned', 'replaying', 'resolved', 'closed')),
    owner            text,
    replay_count     integer NOT NULL DEFAULT 0,
    replay_policy    text NOT NULL DEFAULT 'named_fix',
    due_at           timestamptz,
    expires_at       timestamptz,
    resolved_by      text
);
CREATE UNIQUE INDEX dead_letters_one_open ON assay.dead_letters (task_id)
    WHERE state IN ('open', 'assigned', 'replaying');

CREATE TABLE assay.review_items (
    review_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id    bigint NOT NULL,
    version_id integer NOT NULL,
    reason     text NOT NULL,
    blind      boolean NOT NULL,
    state      text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'decided', 'withdrawn')),
    created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX review_items_one_open ON assay.review_items (task_id) WHERE state = 'open';

-- Parked work, and parked work that an attempt holds just now: a row stays until the task settles for good,
-- so that a killed retry is found again. due_at is not_before, or the holder's lease.
CREATE TABLE assay.parked_tasks (
    task_id    bigint PRIMARY KEY,
    version_id integer NOT NULL,
    due_at     timestamptz NOT NULL
);
CREATE INDEX parked_tasks_due ON assay.parked_tasks (version_id, due_at, task_id);

-- One row per claim transaction: how take-over finds tasks whose worker died, without an index on leases.
CREATE TABLE assay.claim_batches (
    batch_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    version_id integer NOT NULL,
    owner      text NOT NULL,
    claimed_at timestamptz NOT NULL,
    check_at   timestamptz NOT NULL,
    task_ids   bigint[] NOT NULL
);

-- Pieces of a source that are no record (input_schema_invalid) and records whose identity is taken by
-- other content (input_version_conflicts_with_content). Their bytes are in the vault.
CREATE TABLE assay.isolated_records (
    isolated_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source_id       integer NOT NULL,
    partition_no    integer NOT NULL,
    source_offset   bigint NOT NULL,
    source_line     bigint,
    error_code      text NOT NULL
                    CHECK (error_code IN ('input_schema_invalid', 'input_version_conflicts_with_content')),
    error_type      text NOT NULL,
    path            text NOT NULL,
    record_id       text COLLATE "C",
    input_version   integer,
    offered_sha256  bytea,
    raw_ref         bigint NOT NULL,
    owner           text,
    state           text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'resolved', 'closed')),
    replay_count    integer NOT NULL DEFAULT 0,
    replay_policy   text NOT NULL DEFAULT 'named_fix',
    created_at      timestamptz NOT NULL,
    UNIQUE (source_id, partition_no, source_offset)
);

-- Offsets whose record was already known from another position: their destination is that input.
CREATE TABLE assay.source_duplicates (
    source_id     integer NOT NULL,
    partition_no  integer NOT NULL,
    source_offset bigint NOT NULL,
    record_id     text COLLATE "C" NOT NULL,
    input_version integer NOT NULL,
    seen_at       timestamptz NOT NULL,
    PRIMARY KEY (source_id, partition_no, source_offset)
);

-- Events leave from here, at least once and in order per aggregate. event_id is derived, never random.
CREATE TABLE assay.outbox_events (
    outbox_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id       uuid NOT NULL,
    aggregate_kind text NOT NULL CHECK (aggregate_kind IN ('result', 'isolated_record', 'version')),
    aggregate_id   text COLLATE "C" NOT NULL,
    kind           text NOT NULL CHECK (kind IN
                   ('completed', 'superseded', 'quarantined', 'rejected', 'review_completed', 'conflict',
                    'isolated', 'promotion_frozen', 'rolled_back', 'snapshot_ready', 'erased')),
    revision       integer NOT NULL,
    task_id        bigint,
    payload        jsonb NOT NULL,
    created_at     timestamptz NOT NULL,
    transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(),
    published_at   timestamptz
);

CREATE FUNCTION assay.event_id(
    aggregate_kind text, aggregate_id text, kind text, revision integer, restore_epoch integer
) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT substr(encode(sha256(convert_to(concat_ws(E'\x1f', aggregate_kind, aggregate_id, kind, revision,
                                                     restore_epoch), 'UTF8')), 'hex'), 1, 32)::uuid
$$;

-- The vault. A record's data key is wrapped by its subject's key where there is one, by the key-encryption
-- key (kek_id) else; deleting the row that holds a wrapped key makes the ciphertext unreadable for ever.
CREATE SEQUENCE assay_vault.refs AS bigint;
CREATE TABLE assay_vault.subject_keys (
    subject_id  text COLLATE "C" PRIMARY KEY,
    kek_id      text NOT NULL,
    wrapped_key bytea NOT NULL
);
CREATE TABLE assay_vault.texts (
    text_ref    bigint PRIMARY KEY,
    subject_id  text COLLATE "C",
    kek_id      text NOT NULL,
    wrapped_key bytea NOT NULL,
    ciphertext  bytea NOT NULL
);
CREATE TABLE assay_vault.labels (
    label_ref  bigint PRIMARY KEY,
    text_ref   bigint NOT NULL,
    task_id    bigint NOT NULL,
    ciphertext bytea NOT NULL
);
CREATE TABLE assay_vault.raws (
    raw_ref     bigint PRIMARY KEY,
    subject_id  text COLLATE "C",
    kek_id      text NOT NULL,
    wrapped_key bytea NOT NULL,
    ciphertext  bytea NOT NULL
);
