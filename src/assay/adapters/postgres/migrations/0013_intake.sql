-- Intake: isolated records are worked on, records of low priority can be paused, an input knows when its
-- message was made and what its record says of where it came from.

ALTER TABLE assay.inputs
    ADD COLUMN source_timestamp timestamptz,
    ADD COLUMN source_name text;

-- `attributes` is what a conflict's record carried beside its text: its bytes in the vault are the text alone.
ALTER TABLE assay.isolated_records
    ADD COLUMN source_timestamp timestamptz,
    ADD COLUMN attributes jsonb;

-- What people do with isolated records: look at the bytes, take one on, close it, fix it. A fix names the input
-- that the piece became, and the task that annotates it.
CREATE TABLE assay.isolated_acts (
    act_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    isolated_id   bigint NOT NULL REFERENCES assay.isolated_records,
    kind          text NOT NULL CHECK (kind IN ('shown', 'assigned', 'closed', 'fixed')),
    at            timestamptz NOT NULL,
    actor         text NOT NULL CHECK (actor <> ''),
    reason        text CHECK (reason <> ''),
    owner         text,
    fix           text CHECK (fix IN ('corrected_bytes', 'input_version', 'mapping', 'reader', 'document')),
    mapping       text,
    record_id     text COLLATE "C",
    input_version integer,
    task_id       bigint,
    CONSTRAINT act_says_why CHECK (kind IN ('shown', 'assigned') OR reason IS NOT NULL),
    CONSTRAINT assignment_names_an_owner CHECK ((kind = 'assigned') = (owner IS NOT NULL)),
    CONSTRAINT fix_names_its_input CHECK (
        (kind = 'fixed') = (fix IS NOT NULL) AND (kind = 'fixed') = (record_id IS NOT NULL)
        AND (kind = 'fixed') = (input_version IS NOT NULL) AND (kind = 'fixed') = (task_id IS NOT NULL))
);
CREATE INDEX isolated_acts_isolated ON assay.isolated_acts (isolated_id);
CREATE UNIQUE INDEX isolated_acts_one_end ON assay.isolated_acts (isolated_id)
    WHERE kind IN ('closed', 'fixed');

CREATE TRIGGER isolated_acts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON assay.isolated_acts
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();
CREATE TRIGGER isolated_records_stay BEFORE DELETE OR TRUNCATE ON assay.isolated_records
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();

-- Legal moves: open to resolved by a fix, open to closed by a person. The act is written first, in the same
-- transaction. What was isolated, where and why never changes; the owner only while it is open.
CREATE FUNCTION assay.guard_isolated() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    moved boolean := NEW.state <> OLD.state;
BEGIN
    IF (NEW.isolated_id, NEW.source_id, NEW.partition_no, NEW.source_offset, NEW.source_line, NEW.error_code,
        NEW.error_type, NEW.path, NEW.record_id, NEW.input_version, NEW.offered_sha256, NEW.raw_ref,
        NEW.created_at, NEW.source_timestamp, NEW.attributes)
       IS DISTINCT FROM
       (OLD.isolated_id, OLD.source_id, OLD.partition_no, OLD.source_offset, OLD.source_line, OLD.error_code,
        OLD.error_type, OLD.path, OLD.record_id, OLD.input_version, OLD.offered_sha256, OLD.raw_ref,
        OLD.created_at, OLD.source_timestamp, OLD.attributes)
       OR NEW.replay_count <> OLD.replay_count + (moved AND NEW.state = 'resolved')::integer
       OR (OLD.state <> 'open' AND NEW.owner IS DISTINCT FROM OLD.owner)
    THEN
        RAISE EXCEPTION 'an isolated record is only assigned, fixed or closed' USING ERRCODE = 'AS002';
    END IF;
    IF moved AND NOT (OLD.state = 'open' AND EXISTS (
        SELECT FROM assay.isolated_acts a
        WHERE a.isolated_id = OLD.isolated_id
          AND a.kind = CASE NEW.state WHEN 'resolved' THEN 'fixed' ELSE 'closed' END))
    THEN
        RAISE EXCEPTION 'illegal move of isolated record %: % to %', OLD.isolated_id, OLD.state, NEW.state
            USING ERRCODE = 'AS001';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER guard_isolated BEFORE UPDATE ON assay.isolated_records
    FOR EACH ROW EXECUTE FUNCTION assay.guard_isolated();

-- Records of low priority may be paused, per pipeline: the last act says whether they are.
CREATE TABLE assay.low_priority_acts (
    act_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name   text COLLATE "C" NOT NULL CHECK (name <> ''),
    kind   text NOT NULL CHECK (kind IN ('paused', 'resumed')),
    reason text NOT NULL CHECK (reason <> ''),
    actor  text NOT NULL CHECK (actor <> ''),
    at     timestamptz NOT NULL
);
CREATE INDEX low_priority_acts_name ON assay.low_priority_acts (name, act_id);
CREATE TRIGGER low_priority_acts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON assay.low_priority_acts
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();

CREATE FUNCTION assay.low_paused(of_version integer) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce((
        SELECT a.kind = 'paused'
        FROM assay.low_priority_acts a
        WHERE a.name = (SELECT v.name FROM assay.pipeline_versions v WHERE v.version_id = of_version)
        ORDER BY a.act_id DESC
        LIMIT 1), false)
$$;

-- The work list knows the priority: what is paused is passed over without a look at any row of it.
ALTER TABLE assay.parked_tasks ADD COLUMN low boolean NOT NULL DEFAULT false;
UPDATE assay.parked_tasks p SET low = true
FROM assay.annotation_tasks t
JOIN assay.inputs i ON i.record_id = t.record_id AND i.input_version = t.input_version
WHERE t.task_id = p.task_id AND i.priority = 'low';
DROP INDEX assay.parked_tasks_due;
CREATE INDEX parked_tasks_due ON assay.parked_tasks (version_id, low, due_at, task_id);
