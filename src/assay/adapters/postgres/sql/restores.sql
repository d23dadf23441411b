-- What a database that was restored from a backup needs before workers and publishers start.

-- name: restored
-- Everything announced from here on has ids that no event before the restore had. Not while a worker holds a lease:
-- what it announces would bear both. Returns the new epoch, or nothing.
UPDATE assay.instance i
SET restore_epoch = i.restore_epoch + 1
WHERE NOT EXISTS (
    SELECT FROM assay.leases l WHERE l.ended_at IS NULL AND l.lease_until > assay.assay_now())
RETURNING i.restore_epoch
