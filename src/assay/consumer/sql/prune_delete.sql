-- What is known by its revision needs no row.
DELETE FROM assay_inbox_notes n
USING assay_inbox i
WHERE n.inbox = %(inbox)s AND i.inbox = n.inbox AND i.aggregate_kind = n.aggregate_kind
  AND i.aggregate_id = n.aggregate_id AND n.accepted_at < clock_timestamp() - %(keep)s::interval
  AND (i.note_epoch, i.note_revision) >= (n.epoch, n.revision)
