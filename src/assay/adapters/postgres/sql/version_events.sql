-- What happens to a pipeline version: stops, models that its vendor reports, approvals, and the log of it all.

-- name: version_log
-- One line of a version's log. Written in the transaction of what it tells.
INSERT INTO assay.version_events (version_id, kind, detail, actor, at)
VALUES (%(version_id)s::int4, %(kind)s::text, %(detail)s::text::jsonb, %(actor)s::text, assay.assay_now())

-- name: version_open_stop
-- The stop that holds the version now, if any. Asked once a second by every worker.
SELECT s.stop_id, s.code, s.http_status, s.reason, s.stopped_at, s.stopped_by
FROM assay.version_stops s
WHERE s.version_id = %(version_id)s::int4 AND s.cleared_at IS NULL

-- name: version_stop
-- Stop a version, once: an open stop stays as it is. The log hears of it in the same statement.
WITH made AS (
    INSERT INTO assay.version_stops (version_id, code, http_status, reason, stopped_at, stopped_by)
    SELECT %(version_id)s::int4, %(code)s::text, %(http_status)s::int4, %(reason)s::text, assay.assay_now(),
           %(actor)s::text
    ON CONFLICT (version_id) WHERE cleared_at IS NULL DO NOTHING
    RETURNING stop_id, version_id, code, http_status, reason, stopped_at, stopped_by
)
INSERT INTO assay.version_events (version_id, kind, detail, actor, at)
SELECT version_id, 'stopped',
       jsonb_build_object('stop_id', stop_id, 'code', code, 'http_status', http_status, 'reason', reason),
       stopped_by, stopped_at
FROM made
RETURNING event_no

-- name: version_clear_stop
-- Let a version go on: the stop that was looked at, and no other one.
WITH cleared AS (
    UPDATE assay.version_stops
    SET cleared_at = assay.assay_now(), cleared_by = %(actor)s::text
    WHERE version_id = %(version_id)s::int4 AND cleared_at IS NULL AND stop_id = %(stop_id)s::int8
    RETURNING stop_id, version_id, code, cleared_at, cleared_by
)
INSERT INTO assay.version_events (version_id, kind, detail, actor, at)
SELECT version_id, 'resumed', jsonb_build_object('stop_id', stop_id, 'code', code, 'reason', %(reason)s::text),
       cleared_by, cleared_at
FROM cleared
RETURNING event_no

-- name: version_model_known
-- Whether a version's vendor has reported this model before. Locks nothing.
SELECT FROM assay.version_models WHERE version_id = %(version_id)s::int4 AND model = %(model)s::text

-- name: version_model_note
-- Run under the version's lock, alone. The first model of a version is its baseline. Tells the baseline, whether
-- the model is new, and whether a person has approved of it already.
WITH baseline AS MATERIALIZED (
    SELECT model FROM assay.version_models WHERE version_id = %(version_id)s::int4 AND baseline
),
made AS (
    INSERT INTO assay.version_models
        (version_id, model, baseline, first_seen_at, first_seen_by, first_request_id)
    SELECT %(version_id)s::int4, %(model)s::text, NOT EXISTS (SELECT FROM baseline), assay.assay_now(),
           %(actor)s::text, %(request_id)s::text
    ON CONFLICT (version_id, model) DO NOTHING
    RETURNING model
)
SELECT (SELECT model FROM baseline), EXISTS (SELECT FROM made),
       EXISTS (SELECT FROM assay.version_approvals a
               WHERE a.version_id = %(version_id)s::int4 AND a.kind = 'model' AND a.model = %(model)s::text
                 AND a.revoked_at IS NULL)

-- name: version_approve
-- A person admits what no gate has passed.
WITH made AS (
    INSERT INTO assay.version_approvals (version_id, kind, model, reason, approved_at, approved_by)
    SELECT %(version_id)s::int4, %(kind)s::text, %(model)s::text, %(reason)s::text, assay.assay_now(),
           %(actor)s::text
    RETURNING approval_id, version_id, kind, model, reason, approved_at, approved_by
),
logged AS (
    INSERT INTO assay.version_events (version_id, kind, detail, actor, at)
    SELECT version_id, 'approved',
           jsonb_build_object('approval_id', approval_id, 'for', kind, 'model', model, 'reason', reason),
           approved_by, approved_at
    FROM made
)
SELECT approval_id FROM made

-- name: version_revoke
-- An approval counts no more from now on; what it admitted until now stays admitted.
WITH revoked AS (
    UPDATE assay.version_approvals
    SET revoked_at = assay.assay_now(), revoked_by = %(actor)s::text, revoked_reason = %(reason)s::text
    WHERE version_id = %(version_id)s::int4 AND approval_id = %(approval_id)s::int8 AND revoked_at IS NULL
    RETURNING approval_id, version_id, kind, model, revoked_at, revoked_by, revoked_reason
)
INSERT INTO assay.version_events (version_id, kind, detail, actor, at)
SELECT version_id, 'approval_revoked',
       jsonb_build_object('approval_id', approval_id, 'for', kind, 'model', model, 'reason', revoked_reason),
       revoked_by, revoked_at
FROM revoked
RETURNING event_no

-- name: version_stage
-- A version's stage. Locked, so that an approval is for the stage that it names.
SELECT stage FROM assay.releases WHERE version_id = %(version_id)s::int4 FOR SHARE

-- name: page_release
-- A version as its page heads it.
SELECT v.name AS pipeline, v.pipeline_version, v.label AS version_label, v.code_commit, v.registered_at,
       v.call_reserve, r.stage, r.share, r.frozen, r.frozen_at, r.frozen_reason, r.frozen_by, v.definition
FROM assay.pipeline_versions v
JOIN assay.releases r USING (version_id)
WHERE v.version_id = %(version_id)s::int4

-- name: page_stops
-- Stops of a version, the latest first.
SELECT code, http_status, reason, stopped_at, stopped_by, cleared_at, cleared_by
FROM assay.version_stops WHERE version_id = %(version_id)s::int4 ORDER BY stop_id DESC

-- name: page_models
-- Models that a version's vendor reported, in the order in which they showed.
SELECT m.model, m.baseline, m.first_seen_at, m.first_seen_by, m.first_request_id,
       EXISTS (SELECT FROM assay.version_approvals a
               WHERE a.version_id = m.version_id AND a.kind = 'model' AND a.model = m.model
                 AND a.revoked_at IS NULL) AS approved
FROM assay.version_models m
WHERE m.version_id = %(version_id)s::int4
ORDER BY m.first_seen_at, m.model

-- name: page_approvals
-- Approvals of a version, revoked ones included.
SELECT approval_id, kind, model, reason, approved_at, approved_by, revoked_at, revoked_by, revoked_reason
FROM assay.version_approvals WHERE version_id = %(version_id)s::int4 ORDER BY approval_id

-- name: page_events
-- The log of a version, the latest first.
SELECT event_no, kind, detail, actor, at
FROM assay.version_events WHERE version_id = %(version_id)s::int4 ORDER BY event_no DESC
