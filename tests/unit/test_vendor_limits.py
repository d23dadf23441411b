"""Limits of the practice vendor, on a clock that the test moves."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.vendor.limits import MOST_ACCOUNTS, OTHERS, Account, Accounts, Bucket, account_of
from assay.vendor.settings import VendorConfig
from assay.vendor.stats import AccountStats, Stats
from assay.vendor.windows import SlidingMost
from assay.vendor.wire_openai import duration

CONFIG = VendorConfig(Path("g.jsonl"), limit_requests=600, limit_tokens=60_000)


def _account() -> Account:
    return Account("none", AccountStats())


def test_a_greedy_caller_gets_the_limit_and_the_burst_and_no_more() -> None:
    account, now = _account(), 1000.0
    for _ in range(12_000):  # two minutes, 100 tries a second, ten of them allowed
        if account.admit(CONFIG, 100, now) is None:
            account.release()
        now += 0.01
    counts = account.counts
    assert counts.admitted == pytest.approx(1200 + 10, abs=1)
    assert counts.refused == 12_000 - counts.admitted
    assert 600 <= counts.most_in_60s <= 610
    assert 10 <= counts.most_in_1s <= 20
    assert counts.most_tokens_in_60s == 100 * counts.most_in_60s


def test_a_caller_that_waits_as_told_is_never_refused_twice_in_a_row() -> None:
    account, now, refused = _account(), 0.0, 0
    for _ in range(500):
        told = account.admit(CONFIG, 100, now)
        if told is not None:
            refused += 1
            now += told.wait
            assert account.admit(CONFIG, 100, now) is None
        account.release()
    assert refused > 0
    assert account.counts.admitted / (now / 60 + 1 / 60) == pytest.approx(600, rel=0.01)


def test_tokens_are_limited_and_a_call_larger_than_the_bucket_leaves_a_debt() -> None:
    account = _account()
    assert account.admit(CONFIG, 5000, 0.0) is None  # the bucket holds 1000
    told = account.admit(CONFIG, 10, 0.0)
    assert told is not None
    assert told.limit == "tokens"
    assert told.wait == pytest.approx(4.01)
    assert account.admit(CONFIG, 10, 4.0) is not None
    assert account.admit(CONFIG, 10, 4.02) is None


def test_what_one_limit_refuses_takes_nothing_from_the_other() -> None:
    account = _account()
    account.admit(CONFIG, 1000, 0.0)
    for _ in range(50):
        assert account.admit(CONFIG, 500, 0.0) is not None
    assert account.requests is not None
    assert account.requests.state(0.0).remaining == 9


def test_calls_at_once() -> None:
    account, config = _account(), VendorConfig(Path("g.jsonl"), limit_concurrency=2)
    assert [account.admit(config, 1, 0.0) is None for _ in range(3)] == [True, True, False]
    account.release()
    assert account.admit(config, 1, 0.0) is None
    assert (account.counts.peak_in_flight, account.counts.refused) == (2, 1)


def test_a_changed_limit_starts_full_and_the_others_stay() -> None:
    account = _account()
    for _ in range(10):
        account.admit(CONFIG, 100, 0.0)
    changed = replace(CONFIG, limit_requests=60)
    told = account.admit(changed, 100, 0.0)
    assert told is not None
    assert told.limit == "tokens"
    assert account.requests is not None
    assert account.requests.state(0.0).remaining == 1
    assert account.admit(replace(changed, limit_tokens=None), 100, 0.0) is None


def test_what_the_headers_say() -> None:
    bucket = Bucket(600, 2.0, 0.0)
    bucket.take(15)
    state = bucket.state(0.0)
    assert (state.limit, state.remaining) == (600, 5)
    assert state.reset == pytest.approx(1.5)
    assert [duration(s) for s in (0.0, 0.012, 1.0, 1.5, 360.0, 3602.0)] == [
        "0ms",
        "12ms",
        "1s",
        "1.5s",
        "6m0s",
        "1h0m2s",
    ]


@given(
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 9)), min_size=1, max_size=60),
    st.floats(0.5, 5),
)
def test_windows_agree_with_counting_by_hand(steps: list[tuple[float, int]], length: float) -> None:
    window, now, seen = SlidingMost(length), 0.0, deque[tuple[float, int]]()
    calls = tokens = 0
    for step, amount in steps:
        now += step
        window.add(now, amount)
        seen.append((now, amount))
        inside = [known for at, known in seen if at > now - length]
        calls, tokens = max(calls, len(inside)), max(tokens, sum(inside))
    assert (window.most_calls, window.most_tokens) == (calls, tokens)


def test_accounts_are_named_by_a_digest_and_bounded() -> None:
    assert account_of(None) == "none"
    assert "secret" not in account_of("secret")
    accounts = Accounts(Stats())
    for number in range(MOST_ACCOUNTS):
        accounts.name(str(number))
    assert accounts.name("one more") == OTHERS
    assert accounts.name("7") == account_of("7")
