-- What was applied: one row per aggregate, and one per note (an event that leaves its aggregate's revision as it
-- is) until it is pruned. Notes up to (note_epoch, note_revision) were pruned and are known by that alone.
CREATE TABLE IF NOT EXISTS assay_inbox (
    inbox          text COLLATE "C" NOT NULL,
    aggregate_kind text COLLATE "C" NOT NULL,
    aggregate_id   text COLLATE "C" NOT NULL,
    epoch          bigint NOT NULL,
    revision       bigint NOT NULL,
    event_id       uuid,
    note_epoch     bigint NOT NULL DEFAULT -1,
    note_revision  bigint NOT NULL DEFAULT 0,
    applied_at     timestamptz NOT NULL,
    PRIMARY KEY (inbox, aggregate_kind, aggregate_id)
);
CREATE TABLE IF NOT EXISTS assay_inbox_notes (
    inbox          text COLLATE "C" NOT NULL,
    event_id       uuid NOT NULL,
    aggregate_kind text COLLATE "C" NOT NULL,
    aggregate_id   text COLLATE "C" NOT NULL,
    epoch          bigint NOT NULL,
    revision       bigint NOT NULL,
    accepted_at    timestamptz NOT NULL,
    PRIMARY KEY (inbox, event_id)
);
CREATE INDEX IF NOT EXISTS assay_inbox_notes_age ON assay_inbox_notes (inbox, accepted_at);
