-- Money. What was spent is what the ledger of calls says, added up as it is written: per version and UTC day,
-- so that a cap is checked without reading the ledger.

-- Concurrent finishes add to rows of their own (stripe: the session's number modulo 16) instead of queueing for
-- one. A late report takes back what another session added: a stripe alone may be below 0, a day is not.
-- calls_unknown: billed calls whose cost nobody told.
CREATE TABLE assay.spend (
    version_id    integer NOT NULL,
    day           date NOT NULL,
    stripe        smallint NOT NULL CHECK (stripe BETWEEN 0 AND 15),
    cost          numeric NOT NULL,
    calls         bigint NOT NULL,
    calls_unknown bigint NOT NULL,
    PRIMARY KEY (version_id, day, stripe)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- One sum per statement and version and day, in key order. An update is both: out with the old, in with the new.
CREATE FUNCTION assay.count_spend() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO assay.spend AS s (version_id, day, stripe, cost, calls, calls_unknown)
        SELECT version_id, (recorded_at AT TIME ZONE 'UTC')::date, pg_backend_pid() % 16,
               -coalesce(sum(cost), 0), -count(*), -count(*) FILTER (WHERE billed AND cost IS NULL)
        FROM gone GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (version_id, day, stripe) DO UPDATE SET
            cost = s.cost + excluded.cost, calls = s.calls + excluded.calls,
            calls_unknown = s.calls_unknown + excluded.calls_unknown;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO assay.spend AS s (version_id, day, stripe, cost, calls, calls_unknown)
        SELECT version_id, (recorded_at AT TIME ZONE 'UTC')::date, pg_backend_pid() % 16,
               coalesce(sum(cost), 0), count(*), count(*) FILTER (WHERE billed AND cost IS NULL)
        FROM made GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (version_id, day, stripe) DO UPDATE SET
            cost = s.cost + excluded.cost, calls = s.calls + excluded.calls,
            calls_unknown = s.calls_unknown + excluded.calls_unknown;
    END IF;
    RETURN NULL;
END
$$;

-- No call is written between the sum over what is there and the first call that the triggers count.
LOCK TABLE assay.calls IN SHARE ROW EXCLUSIVE MODE;
INSERT INTO assay.spend (version_id, day, stripe, cost, calls, calls_unknown)
SELECT version_id, (recorded_at AT TIME ZONE 'UTC')::date, 0, coalesce(sum(cost), 0), count(*),
       count(*) FILTER (WHERE billed AND cost IS NULL)
FROM assay.calls GROUP BY 1, 2;

CREATE TRIGGER count_spend_of_new_calls AFTER INSERT ON assay.calls
    REFERENCING NEW TABLE AS made FOR EACH STATEMENT EXECUTE FUNCTION assay.count_spend();
CREATE TRIGGER count_spend_of_gone_calls AFTER DELETE ON assay.calls
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION assay.count_spend();
CREATE TRIGGER count_spend_of_changed_calls AFTER UPDATE ON assay.calls
    REFERENCING OLD TABLE AS gone NEW TABLE AS made
    FOR EACH STATEMENT EXECUTE FUNCTION assay.count_spend();

-- Caps of a pipeline, all its versions together: per UTC day, or for ever.
CREATE TABLE assay.budgets (
    name     text COLLATE "C" NOT NULL CHECK (name <> ''),
    kind     text NOT NULL CHECK (kind IN ('day', 'total')),
    cap      numeric NOT NULL CHECK (cap >= 0 AND cap < 'Infinity'),
    currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    set_at   timestamptz NOT NULL,
    set_by   text NOT NULL,
    PRIMARY KEY (name, kind)
);

-- Who set or cleared (cap NULL) which cap, and when.
CREATE TABLE assay.budget_changes (
    change_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('day', 'total')),
    cap        numeric,
    currency   text,
    changed_at timestamptz NOT NULL,
    changed_by text NOT NULL
);
CREATE TRIGGER budget_changes_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON assay.budget_changes
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();

-- What workers may still spend: the worst case of the tasks in their hands, and what they took ahead. A worker
-- that died counts until expires_at.
CREATE TABLE assay.spend_reservations (
    name       text COLLATE "C" NOT NULL,
    worker     text COLLATE "C" NOT NULL,
    amount     numeric NOT NULL CHECK (amount >= 0 AND amount < 'Infinity'),
    renewed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (name, worker),
    CONSTRAINT reservation_ends_later CHECK (expires_at > renewed_at)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
