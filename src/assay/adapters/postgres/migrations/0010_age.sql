-- Attempts and age stand still while the breaker of the vendor's account is open.

-- Until when the account was last away; NULL where it never was, or where there is no account.
CREATE FUNCTION assay.last_outage(of_account text) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT greatest(
        (SELECT max(e.at) FROM assay.account_events e WHERE e.account = of_account AND e.kind = 'closed'),
        (SELECT assay.assay_now() FROM assay.vendor_accounts a
         WHERE a.account = of_account AND a.opened_at IS NOT NULL))
$$;

-- Seconds between two moments that count as age. `outage_until` is last_outage, read once per statement: only
-- tasks that last moved before it are looked at more closely.
CREATE FUNCTION assay.time_spent(
    since timestamptz, until timestamptz, of_account text, outage_until timestamptz
) RETURNS double precision LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN until <= since THEN 0
        WHEN outage_until > since THEN greatest(
            extract(epoch FROM until - since)::double precision
            - assay.breaker_open_seconds(of_account, since) + assay.breaker_open_seconds(of_account, until), 0)
        ELSE extract(epoch FROM until - since)::double precision
    END
$$;
