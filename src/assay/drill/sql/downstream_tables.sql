-- The consumer's own tables: each delivery, and the last label of each record.
CREATE TABLE deliveries (
    delivery_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id    uuid NOT NULL,
    kind        text NOT NULL,
    applied     boolean NOT NULL
);
CREATE TABLE labels (
    record_id text PRIMARY KEY,
    state     text NOT NULL,
    label     jsonb NOT NULL
);
