-- What the consumer believes.
SELECT record_id, state, label ->> 'category' FROM labels ORDER BY record_id
