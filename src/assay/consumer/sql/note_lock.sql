-- Lock the aggregate, in a statement before the deciding one: that one then sees what the last holder left.
-- An aggregate of which only notes are known stands before every revision.
INSERT INTO assay_inbox AS i (inbox, aggregate_kind, aggregate_id, epoch, revision, applied_at)
VALUES (%(inbox)s, %(aggregate_kind)s, %(aggregate_id)s, -1, 0, clock_timestamp())
ON CONFLICT (inbox, aggregate_kind, aggregate_id) DO UPDATE SET inbox = excluded.inbox
