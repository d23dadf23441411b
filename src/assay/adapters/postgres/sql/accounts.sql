-- Vendor accounts: pace and breaker that all workers of an account share. Each statement is a transaction of its
-- own: a worker that is stopped in the middle holds no lock. The moment is taken with the row's lock, so that
-- time spent waiting for it is not given away twice. Moves of the breaker never take changed_at back: it is what
-- tells that the clock has stepped back, and `look_at_account` and `sync_account` find no row until
-- `mend_account` has taken the account's moments back with it.

-- name: enter_account
-- The account's row, made when the first worker comes.
INSERT INTO assay.vendor_accounts
    (account, grown_at, counted_at, counted_since, next_request_at, next_token_at, hold_until, changed_at)
SELECT %(account)s, now, now, now, now, now, now, now FROM (SELECT assay.assay_now() AS now) AS clock
ON CONFLICT (account) DO NOTHING

-- name: mend_account
-- The clock has stepped back: every moment of the account goes back as far, so that what is left of each wait
-- stays what it was. No breaker waits longer than any rule or vendor can ask for.
UPDATE assay.vendor_accounts a SET
    limits_seen_at = a.limits_seen_at - s.back, grown_at = a.grown_at - s.back, cut_at = a.cut_at - s.back,
    cut_noted_at = a.cut_noted_at - s.back, counted_at = a.counted_at - s.back,
    counted_since = a.counted_since - s.back, next_request_at = a.next_request_at - s.back,
    next_token_at = a.next_token_at - s.back, hold_until = a.hold_until - s.back,
    opened_at = a.opened_at - s.back, closed_at = a.closed_at - s.back,
    -- least() passes over NULL.
    open_until = CASE WHEN a.open_until IS NOT NULL THEN least(a.open_until - s.back, s.longest) END,
    probe_until = CASE WHEN a.probe_until IS NOT NULL THEN least(a.probe_until - s.back, s.longest) END,
    changed_at = least(a.changed_at, c.now)
FROM (SELECT assay.assay_now() AS now) AS c, assay.vendor_accounts b
CROSS JOIN LATERAL (
    SELECT greatest(b.changed_at - assay.assay_now(), interval '0') AS back,
           assay.assay_now() + make_interval(secs => %(longest)s) AS longest) AS s
WHERE a.account = %(account)s AND b.account = a.account
  AND (a.changed_at > c.now + interval '1 second'
       OR coalesce(a.open_until, a.probe_until) > c.now + make_interval(secs => %(longest)s + 1))

-- name: sync_account
-- Tell what was seen and book a chunk: assay.domain.permitted_rate.adjust, then assay.domain.pacing.reserve.
WITH before AS MATERIALIZED (
    SELECT a.*, assay.assay_now() AS now FROM assay.vendor_accounts a
    WHERE a.account = %(account)s AND a.changed_at <= assay.assay_now() + interval '1 second'
      AND coalesce(a.open_until <= assay.assay_now() + make_interval(secs => %(longest)s + 1), true)
      AND coalesce(a.probe_until <= assay.assay_now() + make_interval(secs => %(longest)s + 1), true)
    FOR NO KEY UPDATE
),
seen AS MATERIALIZED (
    SELECT b.now, l.*, s.*, c.*, p.answered_per_minute, (%(push)s > 0 AND (
               b.cut_at IS NULL OR extract(epoch FROM b.now - b.cut_at)::float8 >= %(cut_every)s)) AS cut
    FROM before b
    CROSS JOIN LATERAL (
        -- What the vendor states counts for an hour; a declaration counts for those who made it.
        SELECT coalesce(%(stated_requests)s::float8, CASE WHEN f.fresh THEN b.requests_per_minute END) AS requests,
               coalesce(%(stated_tokens)s::float8, CASE WHEN f.fresh THEN b.tokens_per_minute END) AS tokens
        FROM (SELECT coalesce(b.limits_seen_at > b.now - interval '1 hour', false) AS fresh) AS f) AS l
    CROSS JOIN LATERAL (
        SELECT least(l.requests, %(declared_requests)s::float8) * %(use)s AS stated,
               least(l.tokens, %(declared_tokens)s::float8) * %(use)s AS token_rate) AS s
    CROSS JOIN LATERAL (
        -- PostgreSQL refuses results too small for it (underflow) where Python takes them for 0: after hours
        -- without a call nothing is left.
        SELECT CASE WHEN b.answered < 1e-9 THEN 0 ELSE b.answered * exp(- least(
                   greatest(extract(epoch FROM b.now - b.counted_at)::float8, 0) / %(memory)s, 100)) END
               + %(answered)s AS answered) AS c
    CROSS JOIN LATERAL (
        SELECT %(of_answered)s * 60 * c.answered / (%(memory)s * (1 - exp(- least(
                   greatest(extract(epoch FROM b.now - b.counted_since)::float8, 1) / %(memory)s, 100))))
               AS answered_per_minute) AS p
),
paced AS MATERIALIZED (
    SELECT s.*, r.permitted, least(s.stated, r.permitted) AS request_rate
    FROM before b, seen s
    CROSS JOIN LATERAL (SELECT coalesce(b.permitted_per_minute, s.stated) AS base) AS o
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN s.cut AND %(push)s = 1 THEN greatest(%(least)s,
                coalesce(o.base, s.answered_per_minute) * %(low_cut)s)
            WHEN s.cut AND o.base IS NULL THEN greatest(%(first)s, s.answered_per_minute)
            WHEN s.cut THEN greatest(%(least)s, CASE WHEN s.stated IS NOT NULL THEN %(cut)s * o.base ELSE
                least(greatest(s.answered_per_minute, %(most_cut)s * o.base), %(cut)s * o.base) END)
            WHEN %(push)s > 0 OR b.permitted_per_minute IS NULL THEN b.permitted_per_minute
            WHEN greatest(b.next_request_at, b.next_token_at) <= b.now - make_interval(secs => %(nearly_now)s)
                THEN b.permitted_per_minute
            ELSE least(%(most)s, b.permitted_per_minute * (1
                + least(greatest(extract(epoch FROM b.now - b.grown_at)::float8, 0), %(longest_step)s)
                * CASE WHEN s.stated IS NOT NULL THEN %(to_stated)s
                       WHEN b.failed_per_minute IS NULL THEN %(unknown)s
                       WHEN s.token_rate IS NOT NULL THEN %(to_stated)s
                       ELSE least(%(unknown)s, CASE
                           WHEN b.permitted_per_minute BETWEEN %(near_from)s * b.failed_per_minute
                                                           AND %(near_to)s * b.failed_per_minute THEN %(near)s
                           ELSE %(far)s END * power(greatest(1, coalesce(
                               extract(epoch FROM b.now - b.cut_at)::float8, 0) / %(patience)s), 2)) END))
        END AS rate) AS g
    CROSS JOIN LATERAL (
        -- Where tokens alone are limited, a rate well above what is answered bounds nothing.
        SELECT CASE WHEN %(push)s = 0 AND (g.rate >= s.stated OR s.stated IS NULL
                        AND s.token_rate IS NOT NULL AND g.rate > %(not_felt)s * s.answered_per_minute)
                    THEN NULL ELSE g.rate END AS permitted) AS r
),
booked AS MATERIALIZED (
    SELECT p.*, t.request_seconds, t.token_seconds, h.hold_until, k.request_at, k.token_at, w.starts_at,
           CASE WHEN t.limited THEN n.calls END AS calls
    FROM before b, paced p
    CROSS JOIN LATERAL (
        SELECT coalesce(60 / p.request_rate, 0) AS request_seconds, coalesce(60 / p.token_rate, 0) AS token_seconds,
               %(asked)s > 0 AND (p.request_rate IS NOT NULL OR p.token_rate IS NOT NULL) AS limited) AS t
    CROSS JOIN LATERAL (
        SELECT greatest(least(b.hold_until, b.now + make_interval(secs => %(longest_hold)s)),
                   b.now + make_interval(secs => least(coalesce(%(retry_after)s::float8, 0), %(longest_hold)s)))
               AS hold_until,
               least(b.next_request_at, b.now + make_interval(
                   secs => %(furthest)s + %(in_line)s * t.request_seconds)) AS request_at,
               least(b.next_token_at, b.now + make_interval(secs => %(furthest)s)) AS token_at,
               greatest(least(%(token_error)s * t.token_seconds, %(furthest)s), - %(furthest)s) AS error) AS h
    CROSS JOIN LATERAL (
        -- Calls that went out before there was a pace stand on the timeline too, up to a second of it.
        SELECT CASE WHEN %(unbooked)s = 0 THEN h.request_at
                    ELSE greatest(b.now, h.request_at) + make_interval(secs => least(
                        %(unbooked)s * t.request_seconds, greatest(t.request_seconds, 1))) END AS request_at,
               least(h.token_at + make_interval(secs => h.error),
                   b.now + make_interval(secs => %(furthest)s)) AS token_at) AS k
    CROSS JOIN LATERAL (
        SELECT make_interval(secs => CASE WHEN t.request_seconds > 0 AND t.token_seconds > 0
                   AND t.request_seconds <= %(burst)s THEN %(slack)s ELSE 0 END) AS slack) AS v
    CROSS JOIN LATERAL (
        SELECT greatest(b.now, h.hold_until,
                   CASE WHEN t.request_seconds > 0 THEN k.request_at - v.slack END,
                   CASE WHEN t.token_seconds > 0 THEN k.token_at - v.slack END) AS starts_at) AS w
    CROSS JOIN LATERAL (
        SELECT least(%(chunk)s, greatest(
                   (%(horizon)s - extract(epoch FROM w.starts_at - b.now)::float8) / 2, 0)) AS chunk,
               greatest(t.request_seconds, %(each)s * t.token_seconds) AS step) AS y
    CROSS JOIN LATERAL (
        SELECT greatest(1, least(%(asked)s, CASE WHEN y.step > 0 THEN floor(y.chunk / y.step)
                                                 ELSE %(asked)s END)) AS calls) AS n
),
after AS (
    UPDATE assay.vendor_accounts a SET
        requests_per_minute = CASE WHEN u.source = 'headers' THEN b.requests
                                   WHEN u.source = 'declared' THEN %(declared_requests)s::float8 END,
        tokens_per_minute = CASE WHEN u.source = 'headers' THEN b.tokens
                                 WHEN u.source = 'declared' THEN %(declared_tokens)s::float8 END,
        limits_source = u.source,
        limits_seen_at = CASE WHEN NOT u.source = 'headers' THEN NULL
                              WHEN u.told THEN b.now ELSE a.limits_seen_at END,
        permitted_per_minute = b.permitted,
        failed_per_minute = CASE
            WHEN NOT b.cut OR %(push)s <> 2 THEN a.failed_per_minute
            WHEN b.stated IS NULL AND b.answered_per_minute >= %(most_cut)s * a.permitted_per_minute
                 AND b.answered_per_minute < %(cut)s * a.permitted_per_minute
                THEN b.answered_per_minute / %(of_answered)s
            ELSE coalesce(a.permitted_per_minute, b.stated, a.failed_per_minute) END,
        grown_at = b.now,
        cut_at = CASE WHEN b.cut THEN b.now ELSE a.cut_at END,
        cuts = a.cuts + b.cut::int,
        cut_noted_at = CASE WHEN b.cut AND coalesce(a.cut_noted_at <= b.now - interval '1 minute', true)
                            THEN b.now ELSE a.cut_noted_at END,
        answered = b.answered,
        counted_at = b.now,
        next_request_at = CASE WHEN b.calls IS NULL THEN b.request_at
            ELSE greatest(b.starts_at, b.request_at)
                 + make_interval(secs => b.calls * b.request_seconds) END,
        next_token_at = CASE WHEN b.calls IS NULL THEN b.token_at
            ELSE greatest(b.starts_at, b.token_at)
                 + make_interval(secs => b.calls * %(each)s * b.token_seconds) END,
        hold_until = b.hold_until,
        changed_at = b.now
    FROM booked b, before o
    CROSS JOIN LATERAL (SELECT %(stated_requests)s::float8 IS NOT NULL
                               OR %(stated_tokens)s::float8 IS NOT NULL AS told) AS t
    CROSS JOIN LATERAL (
        SELECT t.told, CASE
            WHEN t.told THEN 'headers'
            WHEN o.limits_seen_at > o.now - interval '1 hour' THEN 'headers'
            WHEN %(declared_requests)s::float8 IS NOT NULL OR %(declared_tokens)s::float8 IS NOT NULL
                THEN 'declared'
            ELSE 'none' END AS source) AS u
    WHERE a.account = o.account
    RETURNING a.*, b.now, b.request_rate, b.token_rate, b.calls, b.starts_at, b.request_seconds,
              b.token_seconds, u.told AND (a.requests_per_minute, a.tokens_per_minute) IS DISTINCT FROM
              (CASE WHEN o.limits_source = 'headers' THEN o.requests_per_minute END,
               CASE WHEN o.limits_source = 'headers' THEN o.tokens_per_minute END) AS learned
),
noted AS (
    INSERT INTO assay.account_events
        (account, at, kind, worker, reason, requests_per_minute, tokens_per_minute, permitted_per_minute)
    SELECT a.account, a.now, e.kind, %(worker)s, e.reason, a.requests_per_minute, a.tokens_per_minute,
           a.permitted_per_minute
    FROM after a CROSS JOIN LATERAL (VALUES
        ('limit_learned', NULL, a.learned),
        ('throttled', CASE %(push)s WHEN 2 THEN 'rate_limited' ELSE 'little_left' END,
         coalesce(a.cut_noted_at = a.now, false))) AS e (kind, reason, happened)
    WHERE e.happened
)
SELECT request_rate, token_rate, CASE WHEN limits_source = 'headers' THEN requests_per_minute END,
       CASE WHEN limits_source = 'headers' THEN tokens_per_minute END, cuts,
       extract(epoch FROM hold_until - now)::float8, breaker_state,
       extract(epoch FROM coalesce(open_until, probe_until) - now)::float8, prober, open_streak, open_reason,
       extract(epoch FROM opened_at - now)::float8, extract(epoch FROM closed_at - now)::float8,
       extract(epoch FROM starts_at - now)::float8, calls::int, request_seconds, token_seconds, %(each)s::float8,
       next_request_at
FROM after

-- name: look_at_account
-- The account as it stands, for a worker that has nothing to tell. Columns as of sync_account.
SELECT NULL::float8, NULL::float8, CASE WHEN a.limits_source = 'headers' THEN a.requests_per_minute END,
       CASE WHEN a.limits_source = 'headers' THEN a.tokens_per_minute END, a.cuts,
       least(extract(epoch FROM a.hold_until - c.now)::float8, %(longest_hold)s), a.breaker_state,
       extract(epoch FROM coalesce(a.open_until, a.probe_until) - c.now)::float8, a.prober, a.open_streak,
       a.open_reason, extract(epoch FROM a.opened_at - c.now)::float8,
       extract(epoch FROM a.closed_at - c.now)::float8,
       NULL::float8, NULL::int, NULL::float8, NULL::float8, NULL::float8, a.next_request_at
FROM assay.vendor_accounts a, (SELECT assay.assay_now() AS now) AS c
WHERE a.account = %(account)s AND a.changed_at <= c.now + interval '1 second'
  AND coalesce(a.open_until <= c.now + make_interval(secs => %(longest)s + 1), true)
  AND coalesce(a.probe_until <= c.now + make_interval(secs => %(longest)s + 1), true)

-- name: give_back
-- Permits that lie ahead, while the timeline still ends with them.
UPDATE assay.vendor_accounts SET
    next_request_at = next_request_at - make_interval(secs => %(request_seconds)s),
    next_token_at = next_token_at - make_interval(secs => %(token_seconds)s),
    changed_at = greatest(changed_at, assay.assay_now())
WHERE account = %(account)s AND next_request_at = %(booked_until)s

-- name: open_breaker
-- A worker has seen enough failures. An opening soon after the last close is one more in the row.
WITH before AS MATERIALIZED (
    SELECT a.*, assay.assay_now() AS now FROM assay.vendor_accounts a
    WHERE a.account = %(account)s AND a.breaker_state = 'closed' FOR NO KEY UPDATE
),
after AS (
    UPDATE assay.vendor_accounts a SET
        breaker_state = 'open', opened_at = b.now, open_reason = %(reason)s, open_streak = s.streak + 1,
        open_until = b.now + make_interval(secs => greatest(%(retry_after)s::float8,
            least(%(cap)s, %(base)s * 2 ^ least(s.streak, 30)) * (1 - 0.25 * %(chance)s))),
        times_opened = a.times_opened + 1, changed_at = greatest(a.changed_at, b.now)
    FROM before b
    CROSS JOIN LATERAL (SELECT CASE WHEN b.closed_at > b.now - make_interval(secs => %(calm)s)
                                    THEN b.open_streak ELSE 0 END AS streak) AS s
    WHERE a.account = b.account
    RETURNING a.*
)
INSERT INTO assay.account_events (account, at, kind, worker, reason)
SELECT account, opened_at, 'opened', %(worker)s, open_reason FROM after

-- name: begin_probe
-- One worker at a time finds out whether the vendor is back; a prober that is overdue is replaced.
WITH before AS MATERIALIZED (
    SELECT a.*, assay.assay_now() AS now FROM assay.vendor_accounts a
    WHERE a.account = %(account)s AND a.breaker_state <> 'closed'
      AND coalesce(a.open_until, a.probe_until) <= assay.assay_now() FOR NO KEY UPDATE
),
after AS (
    UPDATE assay.vendor_accounts a SET
        breaker_state = 'half_open', open_until = NULL, prober = %(worker)s,
        probe_until = b.now + make_interval(secs => %(lease)s), changed_at = greatest(a.changed_at, b.now)
    FROM before b WHERE a.account = b.account
    RETURNING a.*, b.now
)
INSERT INTO assay.account_events (account, at, kind, worker, reason)
SELECT account, now, 'half_open', %(worker)s, open_reason FROM after

-- name: probe_succeeded
-- The vendor answered.
WITH before AS MATERIALIZED (
    SELECT a.*, assay.assay_now() AS now FROM assay.vendor_accounts a
    WHERE a.account = %(account)s AND a.prober = %(worker)s FOR NO KEY UPDATE
),
after AS (
    UPDATE assay.vendor_accounts a SET
        breaker_state = 'closed', opened_at = NULL, open_reason = NULL, prober = NULL, probe_until = NULL,
        closed_at = b.now, changed_at = greatest(a.changed_at, b.now)
    FROM before b WHERE a.account = b.account
    RETURNING a.account, b.now, b.open_reason, b.opened_at
)
INSERT INTO assay.account_events (account, at, kind, worker, reason, opened_at)
SELECT account, greatest(now, opened_at), 'closed', %(worker)s, open_reason, opened_at FROM after

-- name: probe_failed
-- It did not: open again, for longer.
WITH before AS MATERIALIZED (
    SELECT a.*, assay.assay_now() AS now FROM assay.vendor_accounts a
    WHERE a.account = %(account)s AND a.prober = %(worker)s FOR NO KEY UPDATE
),
after AS (
    UPDATE assay.vendor_accounts a SET
        breaker_state = 'open', open_reason = %(reason)s, open_streak = a.open_streak + 1,
        prober = NULL, probe_until = NULL,
        open_until = b.now + make_interval(secs => greatest(%(retry_after)s::float8,
            least(%(cap)s, %(base)s * 2 ^ least(b.open_streak, 30)) * (1 - 0.25 * %(chance)s))),
        times_opened = a.times_opened + 1, changed_at = greatest(a.changed_at, b.now)
    FROM before b WHERE a.account = b.account
    RETURNING a.*, b.now
)
INSERT INTO assay.account_events (account, at, kind, worker, reason)
SELECT account, now, 'opened', %(worker)s, open_reason FROM after

-- name: probe_unused
-- The prober had nothing to call: the next worker may try at once.
UPDATE assay.vendor_accounts a SET
    breaker_state = 'open', open_until = c.now, prober = NULL, probe_until = NULL,
    changed_at = greatest(a.changed_at, c.now)
FROM (SELECT assay.assay_now() AS now) AS c
WHERE a.account = %(account)s AND a.prober = %(worker)s
