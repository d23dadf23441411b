-- A row where the note is new: not known by its id, nor pruned.
INSERT INTO assay_inbox_notes
    (inbox, event_id, aggregate_kind, aggregate_id, epoch, revision, accepted_at)
SELECT i.inbox, %(event_id)s::uuid, i.aggregate_kind, i.aggregate_id, %(epoch)s::bigint, %(revision)s::bigint,
       clock_timestamp()
FROM assay_inbox i
WHERE i.inbox = %(inbox)s AND i.aggregate_kind = %(aggregate_kind)s AND i.aggregate_id = %(aggregate_id)s
  AND (i.note_epoch, i.note_revision) < (%(epoch)s::bigint, %(revision)s::bigint)
ON CONFLICT (inbox, event_id) DO NOTHING
RETURNING true
