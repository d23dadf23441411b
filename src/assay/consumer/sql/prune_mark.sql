-- Old notes are known by their revision from here on. Locks aggregates in key order, as `accept` meets them.
WITH old AS (
    SELECT DISTINCT ON (n.aggregate_kind, n.aggregate_id)
           n.aggregate_kind, n.aggregate_id, n.epoch, n.revision
    FROM assay_inbox_notes n
    WHERE n.inbox = %(inbox)s AND n.accepted_at < clock_timestamp() - %(keep)s::interval
    ORDER BY n.aggregate_kind, n.aggregate_id, n.epoch DESC, n.revision DESC
),
held AS (
    SELECT i.aggregate_kind, i.aggregate_id, old.epoch, old.revision
    FROM old
    JOIN assay_inbox i
        ON i.inbox = %(inbox)s AND i.aggregate_kind = old.aggregate_kind AND i.aggregate_id = old.aggregate_id
    ORDER BY i.aggregate_kind, i.aggregate_id
    FOR UPDATE OF i
)
UPDATE assay_inbox i
SET note_epoch = held.epoch, note_revision = held.revision
FROM held
WHERE i.inbox = %(inbox)s AND i.aggregate_kind = held.aggregate_kind AND i.aggregate_id = held.aggregate_id
  AND (i.note_epoch, i.note_revision) < (held.epoch, held.revision)
