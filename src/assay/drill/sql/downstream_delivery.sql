-- One delivery, and whether it took effect.
INSERT INTO deliveries (event_id, kind, applied) VALUES (%(event_id)s, %(kind)s, %(applied)s)
