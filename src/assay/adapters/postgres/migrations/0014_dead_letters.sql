-- Dead letters that people work on: what groups them, where they came from, what was done about them.

-- The fields that errors are about, array indices folded to `*`, each once, in order.
-- assay.domain.dead_letters says the same; a test compares.
CREATE FUNCTION assay.dead_letter_fields(errors jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(array_agg(f.path ORDER BY f.place), '{}')
    FROM (
        SELECT regexp_replace(e.error ->> 'path', '/[0-9]+(?=/|$)', '/*', 'g') AS path, min(e.place) AS place
        FROM jsonb_array_elements(errors) WITH ORDINALITY AS e (error, place)
        GROUP BY 1) AS f
$$;

-- 16 hex digits over code, kind and the set of (path, type).
CREATE FUNCTION assay.dead_letter_fingerprint(code text, kind text, errors jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT left(encode(sha256(convert_to(
        code || E'\x1f' || coalesce(kind, '') || coalesce(string_agg(f.found, '' ORDER BY f.found COLLATE "C"), ''),
        'UTF8')), 'hex'), 16)
    FROM (
        SELECT DISTINCT E'\x1e' || regexp_replace(e.error ->> 'path', '/[0-9]+(?=/|$)', '/*', 'g')
                        || E'\x1f' || (e.error ->> 'type') AS found
        FROM jsonb_array_elements(errors) AS e (error)) AS f
$$;

-- Where a record came from is copied from its input when its task is quarantined: lists and cohorts then read
-- one table, however large the others have grown.
ALTER TABLE assay.dead_letters
    ADD COLUMN fingerprint   text COLLATE "C",
    ADD COLUMN fields        text[],
    ADD COLUMN source_id     integer,
    ADD COLUMN customer      text,
    ADD COLUMN document_type text,
    ADD COLUMN language      text;

UPDATE assay.dead_letters d
SET fingerprint = assay.dead_letter_fingerprint(d.error_code, d.kind, d.errors),
    fields = assay.dead_letter_fields(d.errors),
    due_at = d.last_attempt_at + interval '7 days';
UPDATE assay.dead_letters d
SET source_id = i.source_id, customer = i.customer, document_type = i.document_type, language = i.language
FROM assay.annotation_tasks t
JOIN assay.inputs i ON i.record_id = t.record_id AND i.input_version = t.input_version
WHERE t.task_id = d.task_id;

ALTER TABLE assay.dead_letters
    ALTER COLUMN fingerprint SET NOT NULL,
    ALTER COLUMN fields SET NOT NULL,
    ADD CONSTRAINT fingerprint_is_short_hex CHECK (fingerprint ~ '^[0-9a-f]{16}$'),
    ADD CONSTRAINT assigned_to_somebody CHECK (state <> 'assigned' OR owner IS NOT NULL),
    ADD CONSTRAINT open_is_nobodys CHECK (state <> 'open' OR owner IS NULL),
    ADD CONSTRAINT resolved_by_something CHECK (state <> 'resolved' OR resolved_by IS NOT NULL);

CREATE INDEX dead_letters_task ON assay.dead_letters (task_id);
CREATE INDEX dead_letters_cohort ON assay.dead_letters (version_id, error_code, dead_letter_id);
CREATE INDEX dead_letters_fingerprint ON assay.dead_letters (fingerprint, dead_letter_id);
CREATE INDEX dead_letters_due ON assay.dead_letters (due_at) WHERE state IN ('open', 'assigned', 'replaying');
CREATE INDEX dead_letters_waiting ON assay.dead_letters (dead_letter_id)
    WHERE state IN ('open', 'assigned', 'replaying');

-- When the dead letters of a pipeline are due and when they expire; its last row counts. NULL: the default.
CREATE TABLE assay.dead_letter_terms (
    term_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name           text COLLATE "C" NOT NULL CHECK (name <> ''),
    due_seconds    double precision CHECK (due_seconds > 0),
    expire_seconds double precision CHECK (expire_seconds > 0),
    actor          text NOT NULL CHECK (actor <> ''),
    at             timestamptz NOT NULL
);
CREATE INDEX dead_letter_terms_name ON assay.dead_letter_terms (name, term_id);
CREATE TRIGGER dead_letter_terms_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON assay.dead_letter_terms
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();

-- What people do with dead letters, replays apart.
CREATE TABLE assay.dead_letter_acts (
    act_id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dead_letter_id bigint NOT NULL REFERENCES assay.dead_letters,
    kind           text NOT NULL CHECK (kind IN ('assigned', 'unassigned', 'closed')),
    at             timestamptz NOT NULL,
    actor          text NOT NULL CHECK (actor <> ''),
    reason         text CHECK (reason <> ''),
    owner          text CHECK (owner <> ''),
    CONSTRAINT letter_closed_for_a_reason CHECK (kind <> 'closed' OR reason IS NOT NULL),
    CONSTRAINT letter_assigned_to_an_owner CHECK ((kind = 'assigned') = (owner IS NOT NULL))
);
CREATE INDEX dead_letter_acts_letter ON assay.dead_letter_acts (dead_letter_id, act_id);
CREATE UNIQUE INDEX dead_letter_acts_one_end ON assay.dead_letter_acts (dead_letter_id) WHERE kind = 'closed';
CREATE TRIGGER dead_letter_acts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON assay.dead_letter_acts
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();
CREATE TRIGGER dead_letters_stay BEFORE DELETE OR TRUNCATE ON assay.dead_letters
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();

-- A dead letter waits (open, assigned, replaying) until it is resolved or closed, once. People's acts are written
-- first, in the same transaction. Evidence changes only where a replay has failed: then it is that attempt's.
CREATE FUNCTION assay.guard_dead_letter() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.dead_letter_id, NEW.task_id, NEW.version_id, NEW.first_attempt_at)
       IS DISTINCT FROM (OLD.dead_letter_id, OLD.task_id, OLD.version_id, OLD.first_attempt_at)
       OR ((NEW.attempt_id, NEW.error_code, NEW.failure_class, NEW.kind, NEW.errors, NEW.first_pass_code,
            NEW.confidence, NEW.accept_at, NEW.attempts, NEW.last_attempt_at, NEW.fingerprint, NEW.fields)
           IS DISTINCT FROM
           (OLD.attempt_id, OLD.error_code, OLD.failure_class, OLD.kind, OLD.errors, OLD.first_pass_code,
            OLD.confidence, OLD.accept_at, OLD.attempts, OLD.last_attempt_at, OLD.fingerprint, OLD.fields)
           AND NOT (OLD.state = 'replaying' AND NEW.state IN ('open', 'assigned')
                    AND NEW.attempt_id <> OLD.attempt_id))
       OR NEW.replay_count < OLD.replay_count
    THEN
        RAISE EXCEPTION 'the evidence of dead letter % stays as it is', OLD.dead_letter_id USING ERRCODE = 'AS002';
    END IF;
    IF NEW.owner IS DISTINCT FROM OLD.owner AND NOT EXISTS (
        SELECT FROM (
            SELECT a.owner FROM assay.dead_letter_acts a
            WHERE a.dead_letter_id = OLD.dead_letter_id AND a.kind IN ('assigned', 'unassigned')
            ORDER BY a.act_id DESC LIMIT 1) AS told
        WHERE told.owner IS NOT DISTINCT FROM NEW.owner)
    THEN
        RAISE EXCEPTION 'dead letter % is given to nobody without an act', OLD.dead_letter_id
            USING ERRCODE = 'AS002';
    END IF;
    IF NEW.state <> OLD.state AND NOT (CASE NEW.state
        WHEN 'closed' THEN OLD.state IN ('open', 'assigned') AND EXISTS (
            SELECT FROM assay.dead_letter_acts a
            WHERE a.dead_letter_id = OLD.dead_letter_id AND a.kind = 'closed')
        WHEN 'replaying' THEN OLD.state IN ('open', 'assigned')
        ELSE OLD.state IN ('open', 'assigned', 'replaying') END)
    THEN
        RAISE EXCEPTION 'illegal move of dead letter %: % to %', OLD.dead_letter_id, OLD.state, NEW.state
            USING ERRCODE = 'AS001';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER guard_dead_letter BEFORE UPDATE ON assay.dead_letters
    FOR EACH ROW EXECUTE FUNCTION assay.guard_dead_letter();

-- What a dead letter burnt, from the ledger: the calls of its task since the task's dead letter before it, up to
-- the attempt that it tells of. What a worker reports that had lost its lease comes later, and belongs to the last.
CREATE FUNCTION assay.dead_letter_burnt(letter bigint, of_task bigint, until timestamptz)
RETURNS TABLE (
    calls bigint, input_tokens bigint, cached_tokens bigint, output_tokens bigint, reasoning_tokens bigint,
    cost numeric, cost_unknown bigint, idempotency_keys text[])
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT count(*), coalesce(sum(c.input_tokens), 0)::int8, coalesce(sum(c.cached_tokens), 0)::int8,
           coalesce(sum(c.output_tokens), 0)::int8, coalesce(sum(c.reasoning_tokens), 0)::int8,
           coalesce(sum(c.cost), 0), count(*) FILTER (WHERE c.billed AND c.cost IS NULL),
           coalesce(array_agg(c.attempt_id || '.' || c.task_id || '.' || c.pass_number ORDER BY c.call_id), '{}')
    FROM assay.calls c
    WHERE c.task_id = of_task
      AND c.recorded_at > coalesce(
          (SELECT max(p.last_attempt_at) FROM assay.dead_letters p
           WHERE p.task_id = of_task AND p.dead_letter_id < letter), '-infinity')
      AND (c.recorded_at <= until
           OR (c.outcome = 'lease_lost' AND NOT EXISTS (
               SELECT FROM assay.dead_letters n WHERE n.task_id = of_task AND n.dead_letter_id > letter)))
$$;

-- The evidence of a dead letter in one row. References, codes and figures alone: no text, no response, no label.
CREATE VIEW assay.dead_letter_envelopes AS
SELECT d.dead_letter_id, d.state, d.owner, d.fingerprint, d.error_code, d.failure_class, d.kind, d.errors, d.fields,
       d.first_pass_code, d.confidence,
       coalesce(d.accept_at, (v.definition #>> '{route,accept_at}')::numeric) AS accept_at,
       t.record_id, t.input_version, encode(t.input_sha256, 'hex') AS input_sha256, t.encrypted_text_ref,
       i.document_ref, s.kind AS source_kind, s.name AS source, i.partition_no AS partition,
       i.source_offset AS offset, i.source_line AS line, i.source_timestamp, i.source_name,
       d.document_type, d.customer, d.language, i.sensitivity, i.jurisdiction, i.priority, i.schema_version,
       i.ocr_version, i.correlation_id, i.trace_parent,
       v.name AS pipeline, v.pipeline_version, v.label AS version_label, v.code_commit,
       v.definition ->> 'model' AS model,
       left(encode(sha256(convert_to((v.definition -> 'prompt')::text, 'UTF8')), 'hex'), 16) AS prompt_version,
       left(encode(sha256(convert_to((v.definition #> '{contract,schema}')::text, 'UTF8')), 'hex'), 16)
           AS contract_version,
       v.definition ->> 'rules_version' AS rules_version,
       t.task_id, t.state::text AS task_state, d.attempt_id, d.attempts, d.first_attempt_at, d.last_attempt_at,
       b.calls, b.input_tokens, b.cached_tokens, b.output_tokens, b.reasoning_tokens, b.cost, b.cost_unknown,
       b.idempotency_keys, d.replay_count, d.replay_policy, d.due_at, d.expires_at, d.resolved_by
FROM assay.dead_letters d
JOIN assay.annotation_tasks t ON t.task_id = d.task_id
JOIN assay.pipeline_versions v ON v.version_id = d.version_id
LEFT JOIN assay.inputs i ON i.record_id = t.record_id AND i.input_version = t.input_version
LEFT JOIN assay.sources s ON s.source_id = coalesce(d.source_id, i.source_id)
CROSS JOIN LATERAL assay.dead_letter_burnt(d.dead_letter_id, d.task_id, d.last_attempt_at) AS b;
