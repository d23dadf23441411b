-- A row where the event is newer than what was applied. The row's lock makes a second consumer of the aggregate
-- wait until this transaction has ended, and then compare with what it left.
INSERT INTO assay_inbox AS i (inbox, aggregate_kind, aggregate_id, epoch, revision, event_id, applied_at)
VALUES (%(inbox)s, %(aggregate_kind)s, %(aggregate_id)s, %(epoch)s, %(revision)s, %(event_id)s,
        clock_timestamp())
ON CONFLICT (inbox, aggregate_kind, aggregate_id) DO UPDATE SET
    epoch = excluded.epoch, revision = excluded.revision, event_id = excluded.event_id,
    applied_at = excluded.applied_at
WHERE (i.epoch, i.revision) < (excluded.epoch, excluded.revision)
  AND i.event_id IS DISTINCT FROM excluded.event_id
RETURNING true
