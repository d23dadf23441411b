-- Contents of files: the same one again, or an earlier one with more behind it.

-- name: find_content
-- The source that has exactly this content.
SELECT source_id FROM assay.sources
WHERE kind = %(kind)s AND name = %(name)s AND mapping = %(mapping)s AND fingerprint = %(fingerprint)s

-- name: earlier_contents
-- Shorter contents under the same name and mapping, the longest first: one may be the start of this one.
SELECT source_id, fingerprint, total, size_bytes
FROM assay.sources
WHERE kind = %(kind)s AND name = %(name)s AND mapping = %(mapping)s
  AND size_bytes < %(size_bytes)s AND total IS NOT NULL
ORDER BY size_bytes DESC, source_id DESC
LIMIT 16

-- name: add_content
-- A content that is not known yet. Whoever added it at the same moment has the same source.
INSERT INTO assay.sources AS s (kind, name, fingerprint, mapping, total, size_bytes, first_read_at)
VALUES (%(kind)s, %(name)s, %(fingerprint)s, %(mapping)s, %(total)s, %(size_bytes)s, assay.assay_now())
ON CONFLICT (kind, name, fingerprint, mapping) DO UPDATE SET
    size_bytes = coalesce(s.size_bytes, excluded.size_bytes)
RETURNING source_id

-- name: extend_content
-- The content of a source has grown, unless somebody changed it since it was looked at. Where another source
-- has the same bytes (a file that was replaced and grew alike), the fingerprint says whose it is.
UPDATE assay.sources s
SET fingerprint = CASE
        WHEN EXISTS (
            SELECT FROM assay.sources o
            WHERE o.kind = s.kind AND o.name = s.name AND o.mapping = s.mapping
              AND o.fingerprint = %(fingerprint)s AND o.source_id <> s.source_id)
        THEN %(fingerprint)s || '#' || s.source_id
        ELSE %(fingerprint)s END,
    total = %(total)s,
    size_bytes = %(size_bytes)s
WHERE s.source_id = %(source_id)s AND split_part(s.fingerprint, '#', 1) = %(earlier)s
RETURNING s.source_id
