-- CREATE TABLE IF NOT EXISTS fails where two sessions do it at once: one waits for the other.
SELECT pg_advisory_xact_lock(hashtextextended('assay.consumer.create_table', 0))
