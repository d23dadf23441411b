-- Replays: a fix is a record, a replay takes dead letters through it, and an item knows what became of each.

-- What mended the cause, who says so, and where it can be read. Never "try again".
CREATE TABLE assay.fixes (
    fix_id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text COLLATE "C" NOT NULL CHECK (name <> ''),
    kind         text NOT NULL CHECK (kind IN (
                     'new_schema', 'revised_prompt', 'new_model',
                     'dependency_restored', 'approval', 'limit_changed')),
    description  text NOT NULL CHECK (description <> ''),
    from_version integer NOT NULL REFERENCES assay.pipeline_versions,
    to_version   integer REFERENCES assay.pipeline_versions,
    author       text NOT NULL CHECK (author <> ''),
    link         text CHECK (link <> ''),
    recorded_at  timestamptz NOT NULL,
    CONSTRAINT fix_of_a_version_names_both CHECK (
        (kind IN ('new_schema', 'revised_prompt', 'new_model')) = (to_version IS NOT NULL)
        AND (to_version IS NULL OR to_version > from_version))
);
CREATE TRIGGER fixes_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON assay.fixes
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();

-- `stage`: what runs again. `validate` judges the kept response, `call` asks the model anew. `first_sample` items
-- settle before the rest begins, and at most `stop_loss` of them may fail.
CREATE TABLE assay.replays (
    replay_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fix_id       bigint NOT NULL REFERENCES assay.fixes,
    stage        text NOT NULL CHECK (stage IN ('validate', 'call')),
    first_sample integer NOT NULL CHECK (first_sample >= 1),
    stop_loss    real NOT NULL CHECK (stop_loss BETWEEN 0 AND 1),
    per_minute   double precision CHECK (per_minute > 0),
    selection    jsonb NOT NULL,
    state        text NOT NULL DEFAULT 'planned'
                 CHECK (state IN ('planned', 'running', 'paused', 'stopped', 'finished')),
    planned_by   text NOT NULL CHECK (planned_by <> ''),
    planned_at   timestamptz NOT NULL,
    -- When the next item is due at the earliest, at so many a minute.
    next_at      timestamptz NOT NULL
);

CREATE TABLE assay.replay_items (
    replay_id      bigint NOT NULL REFERENCES assay.replays,
    place          integer NOT NULL CHECK (place >= 1),
    dead_letter_id bigint NOT NULL REFERENCES assay.dead_letters,
    task_id        bigint NOT NULL,
    -- The annotation that runs: the same one, or that of the newer version.
    runs_task_id   bigint,
    state          text NOT NULL DEFAULT 'waiting'
                   CHECK (state IN ('waiting', 'released', 'succeeded', 'failed', 'overtaken', 'barred')),
    reason         text,
    released_at    timestamptz,
    ended_at       timestamptz,
    PRIMARY KEY (replay_id, place),
    UNIQUE (dead_letter_id, replay_id),
    CONSTRAINT item_runs_once_released CHECK ((runs_task_id IS NOT NULL) = (released_at IS NOT NULL)),
    CONSTRAINT item_says_why CHECK ((state IN ('failed', 'barred', 'overtaken')) = (reason IS NOT NULL)),
    CONSTRAINT item_ends CHECK ((state IN ('waiting', 'released')) = (ended_at IS NULL))
);
-- A dead letter is in one replay at a time.
CREATE UNIQUE INDEX replay_items_one_at_a_time ON assay.replay_items (dead_letter_id)
    WHERE state IN ('waiting', 'released');
CREATE INDEX replay_items_open ON assay.replay_items (replay_id, place) WHERE state IN ('waiting', 'released');
CREATE INDEX replay_items_runs ON assay.replay_items (runs_task_id);
CREATE UNIQUE INDEX replay_items_task ON assay.replay_items (runs_task_id) WHERE state = 'released';
CREATE TRIGGER replay_items_stay BEFORE DELETE OR TRUNCATE ON assay.replay_items
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();
CREATE TRIGGER replays_stay BEFORE DELETE OR TRUNCATE ON assay.replays
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();

-- What people and the stop-loss did with a replay.
CREATE TABLE assay.replay_acts (
    act_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    replay_id bigint NOT NULL REFERENCES assay.replays,
    kind      text NOT NULL CHECK (kind IN ('planned', 'started', 'paused', 'resumed', 'stopped', 'finished')),
    at        timestamptz NOT NULL,
    actor     text NOT NULL CHECK (actor <> ''),
    reason    text NOT NULL CHECK (reason <> '')
);
CREATE INDEX replay_acts_replay ON assay.replay_acts (replay_id);
CREATE TRIGGER replay_acts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON assay.replay_acts
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();

-- The replay whose work an annotation is, or was last.
ALTER TABLE assay.annotation_tasks ADD COLUMN replay_id bigint;

-- Responses that a contract refused, where the pipeline keeps them: sealed under the record's own key.
CREATE TABLE assay_vault.responses (
    response_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id     bigint NOT NULL,
    attempt_id  uuid NOT NULL,
    pass_number smallint NOT NULL CHECK (pass_number IN (1, 2)),
    truncated   boolean NOT NULL,
    ciphertext  bytea NOT NULL,
    kept_at     timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
);
CREATE INDEX responses_task ON assay_vault.responses (task_id, response_id DESC);
CREATE INDEX responses_expired ON assay_vault.responses (expires_at);

-- What bars a dead letter from a replay, or nothing: asked when a replay is planned and again when an item is let
-- out, before anything of it is read. `newer` is the version that the fix leads to, if it leads to one.
CREATE FUNCTION assay.replay_bar(letter bigint, newer integer, stage text, most integer) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN t.state = 'erased' THEN 'erased'
        WHEN EXISTS (
            SELECT FROM assay.annotation_tasks n
            JOIN assay.pipeline_versions w ON w.version_id = n.version_id AND w.name = v.name
            WHERE n.record_id = t.record_id AND n.input_version > t.input_version)
            THEN 'newer_input_version'
        WHEN d.state NOT IN ('open', 'assigned') OR t.state <> 'quarantined' THEN 'settled_before'
        WHEN d.expires_at <= assay.assay_now() THEN 'retention_over'
        WHEN d.replay_count >= most THEN 'replay_limit'
        WHEN EXISTS (
            SELECT FROM assay.annotation_tasks n
            WHERE n.record_id = t.record_id AND n.input_version = t.input_version AND n.version_id = newer)
            THEN 'annotated_by_newer_version'
        WHEN NOT EXISTS (SELECT FROM assay_vault.texts x WHERE x.text_ref = t.encrypted_text_ref) THEN 'text_gone'
        WHEN stage = 'validate' AND NOT EXISTS (
            SELECT FROM assay_vault.responses x
            WHERE x.task_id = t.task_id AND x.expires_at > assay.assay_now())
            THEN 'response_not_kept'
        END
    FROM assay.dead_letters d
    JOIN assay.annotation_tasks t ON t.task_id = d.task_id
    JOIN assay.pipeline_versions v ON v.version_id = d.version_id
    WHERE d.dead_letter_id = letter
$$;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'assay_vault') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON assay_vault.responses TO assay_vault;
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA assay_vault TO assay_vault;
    END IF;
END
$$;
