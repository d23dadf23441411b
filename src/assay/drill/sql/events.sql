-- Every event that the database knows, and whether it has left.
SELECT event_id::text, place = 'published' FROM assay.known_events ORDER BY outbox_id
