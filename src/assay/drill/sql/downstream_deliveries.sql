-- All that came, in the order of its coming.
SELECT event_id::text, applied FROM deliveries ORDER BY delivery_id
