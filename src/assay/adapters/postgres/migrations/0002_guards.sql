-- The database refuses what the table of moves does not allow, and writes the history itself: no code path
-- can move a task without leaving a row. Both triggers work on whole statements (transition tables), so a
-- batch of 500 costs one join and one insert.
--
-- `moves` counts a task's moves. An update that leaves it alone is no move (a renewal, a note) and may change
-- neither state nor attempt; an update that raises it by one is a move and must be in the table.

CREATE FUNCTION assay.guard_task_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM born b
        WHERE b.moves <> 1 OR NOT EXISTS (
            SELECT FROM assay.legal_moves l
            WHERE l.from_state IS NULL AND l.move = b.last_move AND l.to_state = b.state)
    ) THEN
        RAISE EXCEPTION 'illegal first move of a task' USING ERRCODE = 'AS001';
    END IF;
    INSERT INTO assay.task_history (task_id, at, move, from_state, to_state, attempt_id, actor, reason)
    SELECT task_id, last_moved_at, last_move, NULL, state, attempt_id, last_actor, last_reason FROM born;
    RETURN NULL;
END
$$;
CREATE TRIGGER guard_task_insert AFTER INSERT ON assay.annotation_tasks
    REFERENCING NEW TABLE AS born FOR EACH STATEMENT EXECUTE FUNCTION assay.guard_task_insert();

-- Plans of this function are cached from its first, often tiny, batch: without the setting they join the
-- transition tables by nested loops for ever after, which is quadratic in the batch (measured: half of the
-- time of a finish of 500).
CREATE FUNCTION assay.guard_task_update() RETURNS trigger LANGUAGE plpgsql SET enable_nestloop = off AS $$
DECLARE
    illegal record;
BEGIN
    SELECT b.task_id, b.state AS from_state, a.last_move AS move, a.state AS to_state INTO illegal
    FROM before b
    JOIN after a USING (task_id)
    LEFT JOIN assay.legal_moves l
        ON l.from_state = b.state AND l.move = a.last_move AND l.to_state = a.state
    WHERE (a.record_id, a.input_version, a.version_id, a.input_sha256, a.encrypted_text_ref,
           a.quality_probability, a.quality_selected)
          IS DISTINCT FROM
          (b.record_id, b.input_version, b.version_id, b.input_sha256, b.encrypted_text_ref,
           b.quality_probability, b.quality_selected)
       OR (a.moves = b.moves AND (a.state <> b.state OR a.attempt_id IS DISTINCT FROM b.attempt_id))
       OR (a.moves <> b.moves AND (a.moves <> b.moves + 1 OR l.move IS NULL))
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'illegal move of task %: % by % to %',
            illegal.task_id, illegal.from_state, illegal.move, illegal.to_state
            USING ERRCODE = 'AS001';
    END IF;

    INSERT INTO assay.task_history
        (task_id, at, move, from_state, to_state, attempt_id, replaced_attempt_id, actor, reason)
    SELECT a.task_id, a.last_moved_at, a.last_move, b.state, a.state, coalesce(a.attempt_id, b.attempt_id),
           CASE WHEN a.last_move = 'take_over' THEN b.attempt_id END, a.last_actor, a.last_reason
    FROM before b JOIN after a USING (task_id)
    WHERE a.moves <> b.moves;

    -- The attempt that a take-over replaces may have called its provider and told nobody. That call is in
    -- the ledger from here on, charged at its reserve, until its worker reports after all.
    INSERT INTO assay.calls
        (task_id, attempt_id, version_id, pass_number, outcome, billed, cost, recorded_at)
    SELECT a.task_id, b.attempt_id, a.version_id, CASE WHEN b.first_pass_code IS NULL THEN 1 ELSE 2 END,
           'outcome_unknown', true, v.call_reserve, a.last_moved_at
    FROM before b
    JOIN after a USING (task_id)
    JOIN assay.pipeline_versions v ON v.version_id = a.version_id
    WHERE a.moves <> b.moves AND a.last_move = 'take_over';
    RETURN NULL;
END
$$;
CREATE TRIGGER guard_task_update AFTER UPDATE ON assay.annotation_tasks
    REFERENCING OLD TABLE AS before NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION assay.guard_task_update();

-- Rows that only ever grow: history, and tasks themselves.
CREATE FUNCTION assay.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on %.% is not allowed', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'AS002';
END
$$;
CREATE TRIGGER task_history_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON assay.task_history
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();
CREATE TRIGGER annotation_tasks_stay BEFORE DELETE OR TRUNCATE ON assay.annotation_tasks
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();
CREATE TRIGGER pipeline_versions_immutable BEFORE DELETE OR TRUNCATE ON assay.pipeline_versions
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();

-- A version's digest and definition never change; a label may be given once.
CREATE FUNCTION assay.guard_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.name, NEW.pipeline_version, NEW.definition) IS DISTINCT FROM
       (OLD.name, OLD.pipeline_version, OLD.definition)
       OR (OLD.label IS NOT NULL AND NEW.label IS DISTINCT FROM OLD.label) THEN
        RAISE EXCEPTION 'a pipeline version is immutable' USING ERRCODE = 'AS002';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER guard_version BEFORE UPDATE ON assay.pipeline_versions
    FOR EACH ROW EXECUTE FUNCTION assay.guard_version();
