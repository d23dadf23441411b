-- What happens to a pipeline version beside its tasks: stops, changed models, approvals, and a log of all of it.

-- A configuration failure (key, model, quota) stops a version for all its workers until somebody clears it; so
-- does a person. At most one stop is open.
CREATE TABLE assay.version_stops (
    stop_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    version_id  integer NOT NULL REFERENCES assay.pipeline_versions,
    code        text NOT NULL CHECK (code <> ''),
    http_status integer,
    reason      text,
    stopped_at  timestamptz NOT NULL,
    stopped_by  text NOT NULL,
    cleared_at  timestamptz,
    cleared_by  text,
    CONSTRAINT stop_is_cleared_by_somebody CHECK ((cleared_at IS NULL) = (cleared_by IS NULL))
);
CREATE UNIQUE INDEX version_stops_one_open ON assay.version_stops (version_id) WHERE cleared_at IS NULL;

-- Model ids as the vendor reported them. The first one is the baseline of the version.
CREATE TABLE assay.version_models (
    version_id       integer NOT NULL REFERENCES assay.pipeline_versions,
    model            text COLLATE "C" NOT NULL CHECK (model <> ''),
    baseline         boolean NOT NULL,
    first_seen_at    timestamptz NOT NULL,
    first_seen_by    text NOT NULL,
    first_request_id text,
    PRIMARY KEY (version_id, model)
);
CREATE UNIQUE INDEX version_models_one_baseline ON assay.version_models (version_id) WHERE baseline;

-- Decisions that admit what no gate has passed. kind: the stage for which it is given (`unproven`: its labels
-- may enter snapshots; `rolled_back`: its reviewed tasks may), or `model`: this model id is as good as the first.
CREATE TABLE assay.version_approvals (
    approval_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    version_id     integer NOT NULL REFERENCES assay.pipeline_versions,
    kind           text NOT NULL CHECK (kind IN ('unproven', 'rolled_back', 'model')),
    model          text COLLATE "C",
    reason         text NOT NULL CHECK (reason <> ''),
    approved_at    timestamptz NOT NULL,
    approved_by    text NOT NULL,
    revoked_at     timestamptz,
    revoked_by     text,
    revoked_reason text,
    CONSTRAINT approval_names_its_model CHECK ((kind = 'model') = (model IS NOT NULL)),
    CONSTRAINT approval_is_revoked_by_somebody CHECK (
        (revoked_at IS NULL) = (revoked_by IS NULL) AND (revoked_at IS NULL) = (revoked_reason IS NULL))
);
CREATE INDEX version_approvals_version ON assay.version_approvals (version_id);

-- The log: who did what to a version, and what its vendor did.
CREATE TABLE assay.version_events (
    event_no   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    version_id integer NOT NULL REFERENCES assay.pipeline_versions,
    kind       text NOT NULL CHECK (kind IN
               ('stopped', 'resumed', 'model_changed', 'frozen', 'unfrozen', 'approved', 'approval_revoked')),
    detail     jsonb NOT NULL,
    actor      text NOT NULL,
    at         timestamptz NOT NULL
);
CREATE INDEX version_events_version ON assay.version_events (version_id);

CREATE TRIGGER version_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON assay.version_events
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();
CREATE TRIGGER version_models_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON assay.version_models
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();
CREATE TRIGGER version_stops_stay BEFORE DELETE OR TRUNCATE ON assay.version_stops
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();
CREATE TRIGGER version_approvals_stay BEFORE DELETE OR TRUNCATE ON assay.version_approvals
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();

-- A stop is cleared once, an approval revoked once; nothing else of them changes.
CREATE FUNCTION assay.guard_stop() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.cleared_at IS NOT NULL OR
       (NEW.stop_id, NEW.version_id, NEW.code, NEW.http_status, NEW.reason, NEW.stopped_at, NEW.stopped_by)
       IS DISTINCT FROM
       (OLD.stop_id, OLD.version_id, OLD.code, OLD.http_status, OLD.reason, OLD.stopped_at, OLD.stopped_by)
    THEN
        RAISE EXCEPTION 'a stop of a version is only ever cleared' USING ERRCODE = 'AS002';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER guard_stop BEFORE UPDATE ON assay.version_stops
    FOR EACH ROW EXECUTE FUNCTION assay.guard_stop();

CREATE FUNCTION assay.guard_approval() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.revoked_at IS NOT NULL OR
       (NEW.approval_id, NEW.version_id, NEW.kind, NEW.model, NEW.reason, NEW.approved_at, NEW.approved_by)
       IS DISTINCT FROM
       (OLD.approval_id, OLD.version_id, OLD.kind, OLD.model, OLD.reason, OLD.approved_at, OLD.approved_by)
    THEN
        RAISE EXCEPTION 'an approval is only ever revoked' USING ERRCODE = 'AS002';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER guard_approval BEFORE UPDATE ON assay.version_approvals
    FOR EACH ROW EXECUTE FUNCTION assay.guard_approval();

-- What the ledger knows of the time before: the first model is the baseline, later ones are events. Nothing is
-- frozen for what was served already; whoever looks at the version sees it.
INSERT INTO assay.version_models
    (version_id, model, baseline, first_seen_at, first_seen_by, first_request_id)
SELECT m.version_id, m.model, m.place = 1, c.recorded_at, 'ledger', c.request_id
FROM (
    SELECT f.version_id, f.model, f.first_call,
           row_number() OVER (PARTITION BY f.version_id ORDER BY f.first_call) AS place
    FROM (
        SELECT version_id, model, min(call_id) AS first_call
        FROM assay.calls WHERE model <> '' GROUP BY version_id, model
    ) AS f
) AS m
JOIN assay.calls c ON c.call_id = m.first_call
JOIN assay.pipeline_versions v ON v.version_id = m.version_id;
INSERT INTO assay.version_events (version_id, kind, detail, actor, at)
SELECT m.version_id, 'model_changed', jsonb_build_object('old', b.model, 'new', m.model), 'ledger',
       m.first_seen_at
FROM assay.version_models m
JOIN assay.version_models b ON b.version_id = m.version_id AND b.baseline
WHERE NOT m.baseline
ORDER BY m.first_seen_at, m.version_id;
INSERT INTO assay.version_events (version_id, kind, detail, actor, at)
SELECT version_id, 'frozen', jsonb_build_object('reason', frozen_reason), coalesce(frozen_by, 'unknown'),
       frozen_at
FROM assay.releases WHERE frozen ORDER BY frozen_at, version_id;
