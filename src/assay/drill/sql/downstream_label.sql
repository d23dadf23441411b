-- The last label of a record.
INSERT INTO labels (record_id, state, label) VALUES (%(record_id)s, %(state)s, %(label)s)
ON CONFLICT (record_id) DO UPDATE SET state = excluded.state, label = excluded.label
