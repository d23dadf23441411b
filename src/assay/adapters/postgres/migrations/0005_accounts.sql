-- What all workers of a vendor account share: its limits, its pace and its circuit breaker. One narrow row per
-- account (its name tells neither key nor user), written about once a second by each of its workers.

CREATE TABLE assay.vendor_accounts (
    account              text COLLATE "C" PRIMARY KEY CHECK (account <> ''),
    -- As the vendor's replies state them ('headers'), or as the last run that named any declared them.
    requests_per_minute  double precision CHECK (requests_per_minute >= 1),
    tokens_per_minute    double precision CHECK (tokens_per_minute >= 1),
    limits_source        text NOT NULL DEFAULT 'none' CHECK (limits_source IN ('none', 'declared', 'headers')),
    limits_seen_at       timestamptz,
    -- The rate that the vendor lets through, where that is not simply its stated limit: see permitted_rate.py.
    permitted_per_minute double precision CHECK (permitted_per_minute >= 1),
    failed_per_minute    double precision CHECK (failed_per_minute > 0),
    grown_at             timestamptz NOT NULL,
    cut_at               timestamptz,
    cuts                 bigint NOT NULL DEFAULT 0,
    cut_noted_at         timestamptz,
    answered             double precision NOT NULL DEFAULT 0 CHECK (answered >= 0),
    counted_at           timestamptz NOT NULL,
    counted_since        timestamptz NOT NULL,
    -- Theoretical arrival times of the next request and the next token, and a moment before which nothing goes.
    next_request_at      timestamptz NOT NULL,
    next_token_at        timestamptz NOT NULL,
    hold_until           timestamptz NOT NULL,
    breaker_state        text NOT NULL DEFAULT 'closed' CHECK (breaker_state IN ('closed', 'open', 'half_open')),
    opened_at            timestamptz,
    open_until           timestamptz,
    open_reason          text,
    open_streak          integer NOT NULL DEFAULT 0 CHECK (open_streak >= 0),
    times_opened         bigint NOT NULL DEFAULT 0 CHECK (times_opened >= 0),
    closed_at            timestamptz,
    prober               text,
    probe_until          timestamptz,
    changed_at           timestamptz NOT NULL,
    CONSTRAINT limits_as_their_source_says CHECK (
        (limits_source = 'headers') = (limits_seen_at IS NOT NULL)
        AND (limits_source <> 'none') = (requests_per_minute IS NOT NULL OR tokens_per_minute IS NOT NULL)),
    CONSTRAINT cut_as_often_as_noted CHECK ((cuts > 0) = (cut_at IS NOT NULL)),
    CONSTRAINT open_while_not_closed CHECK (
        (breaker_state <> 'closed') = (opened_at IS NOT NULL)
        AND (breaker_state <> 'closed') = (open_reason IS NOT NULL)),
    CONSTRAINT due_while_open CHECK ((breaker_state = 'open') = (open_until IS NOT NULL)),
    CONSTRAINT probed_while_half_open CHECK (
        (breaker_state = 'half_open') = (prober IS NOT NULL)
        AND (breaker_state = 'half_open') = (probe_until IS NOT NULL))
) WITH (fillfactor = 50);

-- What happened to an account. A closed outage carries its beginning.
CREATE TABLE assay.account_events (
    event_id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account              text COLLATE "C" NOT NULL REFERENCES assay.vendor_accounts,
    at                   timestamptz NOT NULL,
    kind                 text NOT NULL
                         CHECK (kind IN ('opened', 'half_open', 'closed', 'limit_learned', 'throttled')),
    worker               text NOT NULL,
    reason               text,
    opened_at            timestamptz,
    requests_per_minute  double precision,
    tokens_per_minute    double precision,
    permitted_per_minute double precision,
    CONSTRAINT closed_since_it_opened CHECK ((kind = 'closed') = (opened_at IS NOT NULL) AND opened_at <= at)
);
CREATE INDEX account_events_by_account ON assay.account_events (account, at);
CREATE TRIGGER account_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON assay.account_events
    FOR EACH STATEMENT EXECUTE FUNCTION assay.refuse();

-- Seconds since a moment in which the account's breaker was not closed: attempts and age stand still then.
CREATE FUNCTION assay.breaker_open_seconds(of_account text, since timestamptz) RETURNS double precision
LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(extract(epoch FROM outage.ended - greatest(outage.began, since))), 0)::double precision
    FROM (
        SELECT e.opened_at AS began, e.at AS ended FROM assay.account_events e
        WHERE e.account = of_account AND e.kind = 'closed' AND e.at > since
        UNION ALL
        SELECT a.opened_at, assay.assay_now() FROM assay.vendor_accounts a
        WHERE a.account = of_account AND a.opened_at IS NOT NULL
    ) AS outage
    WHERE outage.ended > since
$$;
