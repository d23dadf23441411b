-- How many different events have come.
SELECT count(DISTINCT event_id) FROM deliveries
