-- One clock for all that a worker holds. A task keeps the lease end that its claim promised; the worker's lease
-- row extends it, so that a renewal writes one row, whatever the number of tasks. A lease that has run out is
-- ended by whoever takes a task over, under its row lock and before the task: from then on it cannot be
-- renewed, and its worker learns at its next renewal that it has to look at every task again.
CREATE TABLE assay.leases (
    lease_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner       text NOT NULL,
    started_at  timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    ended_at    timestamptz,
    CHECK (lease_until >= started_at)
) WITH (fillfactor = 50);

ALTER TABLE assay.annotation_tasks ADD COLUMN lease_id bigint;
ALTER TABLE assay.annotation_tasks
    ADD CONSTRAINT lease_id_while_processing CHECK (state = 'processing' OR lease_id IS NULL);
ALTER TABLE assay.claim_batches ADD COLUMN lease_id bigint;

-- When the lease of a task ends, for reading: what the claim promised, or what its live lease row says.
CREATE FUNCTION assay.lease_end(promised timestamptz, lease bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT greatest(promised, (SELECT l.lease_until FROM assay.leases l
                               WHERE l.lease_id = lease AND l.ended_at IS NULL))
$$;

-- History is read by task, seldom, and only ever appended in nearly the order of tasks: a BRIN finds it at a
-- hundredth of a B-tree's cost per row (every task writes two rows of history or more).
DROP INDEX assay.task_history_task;
ALTER TABLE assay.task_history DROP CONSTRAINT task_history_pkey;
CREATE INDEX task_history_task ON assay.task_history
    USING brin (task_id int8_minmax_multi_ops) WITH (pages_per_range = 32, autosummarize = on);

-- Plans of the guard are cached from its first, often tiny, batch: joins of transition tables stay hash joins,
-- whatever the session says.
ALTER FUNCTION assay.guard_task_update() SET enable_hashjoin = on;
