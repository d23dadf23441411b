"""The pace: no interleaving of workers exceeds it, nobody starves, and it is used."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.pacing import Ask, Grant, Limits, Pacer, PaceRules, Timeline, in_reach, reserve, settle
from assay.domain.permitted_rate import FIRST, MOST, Permitted, Push, adjust, answered_per_minute, count
from assay.domain.rate_limits import Allowance, RateLimits
from assay.domain.stated_limits import Remainders, stated_limits

RULES = PaceRules()


@dataclass
class World:
    """Workers that reserve on one timeline and send; every worker has a pacer of its own."""

    limits: Limits
    workers: int
    shared: bool = True
    lines: list[Timeline] = field(init=False)
    pacers: list[Pacer] = field(init=False)
    sent: list[tuple[float, float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lines = [Timeline()] * self.workers
        self.pacers = [Pacer(RULES) for _ in range(self.workers)]

    def reserve(self, worker: int, now: float, ask: Ask) -> Grant | None:
        which = 0 if self.shared else worker
        self.lines[which], grant = reserve(self.lines[which], now, self.limits, ask, RULES)
        if grant is not None:
            self.pacers[worker].add(now, grant)
        return grant

    def send(self, worker: int, now: float, tokens: float) -> bool:
        if self.pacers[worker].take(now, tokens) != 0.0:
            return False
        self.sent.append((now, tokens, worker))
        return True

    def worst(self, per_second: float, spare_seconds: float, tokens: bool = False) -> float:
        """By how much the fullest window exceeds rate x (t + spare), in calls or tokens."""
        worst = float("-inf")
        for start in range(len(self.sent)):
            total = 0.0
            for at, amount, _ in self.sent[start:]:
                total += amount if tokens else 1.0
                allowed = per_second * (at - self.sent[start][0] + spare_seconds)
                worst = max(worst, total - allowed)
        return worst


steps = st.lists(
    st.tuples(
        st.integers(0, 3), st.sampled_from(["ask", "send", "wait"]), st.floats(0, 0.7), st.integers(1, 30)
    ),
    max_size=150,
)


@given(st.floats(30, 6000), steps)
def test_no_interleaving_sends_more_than_the_rate(
    per_minute: float, moves: list[tuple[int, str, float, int]]
) -> None:
    world, now = World(Limits(per_minute), 4), 0.0
    for worker, move, seconds, amount in moves:
        if move == "ask":
            world.reserve(worker, now, Ask(amount, amount * 10.0))
        elif move == "wait":
            now += seconds
        else:
            for _ in range(amount):
                world.send(worker, now, 10.0)
    assert world.worst(per_minute / 60, RULES.late + RULES.slack) <= 1.0 + 1e-6


@given(st.floats(30, 3000), st.floats(600, 60_000), steps)
def test_requests_and_tokens_are_both_kept(
    requests: float, tokens: float, moves: list[tuple[int, str, float, int]]
) -> None:
    """Workers 0 and 1 make short calls, 2 and 3 long ones."""
    world, now = World(Limits(requests, tokens), 4), 0.0
    for worker, move, seconds, amount in moves:
        size = 10.0 if worker < 2 else 100.0
        if move == "ask":
            world.reserve(worker, now, Ask(amount, amount * size))
        elif move == "wait":
            now += seconds
        else:
            for _ in range(amount):
                world.send(worker, now, size)
    assert world.worst(requests / 60, RULES.late + RULES.slack) <= 1.0 + 1e-6
    # The last call of a chunk may begin on what is left of its tokens.
    assert world.worst(tokens / 60, RULES.late + RULES.slack, tokens=True) <= 100.0 + 1e-6


def drive(world: World, seconds: float, *, step: float = 0.01, seed: int = 1) -> None:
    """Greedy workers, in a random order at each moment."""
    chance = random.Random(seed)
    for tick in range(int(seconds / step)):
        now = tick * step
        for worker in chance.sample(range(world.workers), world.workers):
            while world.send(worker, now, 10.0):
                if world.pacers[worker].held(now) < 1:
                    world.reserve(worker, now, Ask(1000, 10_000.0))
            if world.pacers[worker].held(now) < 1:
                world.reserve(worker, now, Ask(1000, 10_000.0))


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_greedy_workers_use_the_whole_rate_and_share_it(workers: int) -> None:
    world = World(Limits(1200.0), workers)
    drive(world, 30.0)
    assert 0.97 * 600 <= len(world.sent) <= 602
    shares = [sum(1 for sent in world.sent if sent[2] == worker) for worker in range(workers)]
    assert min(shares) >= 0.7 * len(world.sent) / workers


def test_workers_that_do_not_share_exceed_it() -> None:
    world = World(Limits(1200.0), 2, shared=False)
    drive(world, 5.0)
    assert world.worst(20.0, RULES.late + RULES.slack) > 50


@given(st.integers(1, 40), st.floats(1, 600), st.randoms(use_true_random=False))
def test_nobody_waits_longer_than_all_others_take(
    workers: int, per_minute: float, chance: random.Random
) -> None:
    """Each asks again only when it holds nothing: then the timeline is never far beyond the horizon."""
    line, now = Timeline(), 0.0
    for _ in range(5):
        for _ in chance.sample(range(workers), workers):
            line, grant = reserve(line, now, Limits(per_minute), Ask(1000, 1000.0), RULES)
            assert grant is not None
            assert grant.requests >= 1
            assert grant.starts_in <= RULES.horizon + workers * 60.0 / per_minute
        now = line.next_request_at


def test_short_and_long_calls_share_both_limits() -> None:
    """One worker is bound by requests, the other by tokens: together they use far more than half of each."""
    limits, line, now = Limits(3000.0, 60_000.0), Timeline(), 0.0
    calls = tokens = 0.0
    for turn in range(100):
        each = 2.0 if turn % 2 else 200.0
        line, grant = reserve(line, now, limits, Ask(1000, 1000 * each), RULES)
        assert grant is not None
        calls, tokens = calls + grant.requests, tokens + grant.tokens
        now += grant.starts_in
    span = max(line.next_request_at, line.next_token_at)
    assert calls / (50 * span) > 0.6
    assert tokens / (1000 * span) > 0.6


def test_permits_that_nobody_used_in_time_are_gone() -> None:
    pacer = Pacer(RULES)
    pacer.add(0.0, Grant(0.0, 10, 0.0, 0.1, 0.0))
    assert pacer.held(0.0) == 10
    assert pacer.held(1.0) == 5
    assert pacer.take(2.0, 0.0) is None


def test_calls_keep_their_distance_after_a_delay() -> None:
    pacer = Pacer(RULES)
    pacer.add(0.0, Grant(0.0, 5, 0.0, 0.1, 0.0))
    assert pacer.take(0.35, 0.0) == 0.0
    assert pacer.take(0.35, 0.0) == pytest.approx(0.1)


def test_what_calls_take_beyond_or_short_of_their_grant_is_told_once() -> None:
    pacer = Pacer(RULES)
    pacer.add(0.0, Grant(0.0, 2, 200.0, 0.0, 0.001))
    assert pacer.take(0.0, 50.0) == 0.0
    assert pacer.overdrawn() == 0.0
    assert pacer.take(0.1, 6000.0) == 0.0
    assert pacer.take(0.2, 50.0) is None
    assert pacer.overdrawn() == 5850.0
    assert pacer.overdrawn() == 0.0
    pacer.add(0.2, Grant(0.0, 1, 200.0, 0.0, 0.001))
    assert pacer.take(0.2, 50.0) == 0.0
    assert pacer.take(0.3, 50.0) is None
    assert pacer.overdrawn() == -150.0


def test_a_hold_is_kept_and_a_permit_can_be_put_back() -> None:
    pacer = Pacer(RULES)
    pacer.add(0.0, Grant(0.0, 5, 50.0, 0.1, 0.0))
    pacer.hold(0.3)
    assert pacer.take(0.0, 10.0) == pytest.approx(0.3)
    assert pacer.take(0.3, 10.0) == 0.0
    assert pacer.held(0.3) == 4
    pacer.put_back(10.0)
    assert pacer.held(0.3) == 5


def test_what_lies_ahead_can_be_given_back() -> None:
    pacer = Pacer(RULES)
    grant = Grant(0.0, 10, 100.0, 0.1, 0.0)
    pacer.add(0.0, grant)
    assert pacer.take(0.0, 10.0) == 0.0
    unused = pacer.surrender(0.45)
    assert unused is not None
    assert unused[:2] == (grant, 5)
    assert unused[2] == pytest.approx(55.0)
    assert pacer.surrender(0.45) is None


def test_tokens_beyond_the_estimate_push_the_timeline_on() -> None:
    line = settle(Timeline(), 0.0, Limits(60.0, 600.0), unbooked=3, token_error=50.0)
    assert (line.next_request_at, line.next_token_at) == (1.0, 5.0)


@pytest.mark.parametrize("error", [1e9, 1e15, 10.0**300])
def test_a_miscount_books_a_minute_at_most(error: float) -> None:
    line = Timeline()
    for _ in range(5):
        line = settle(line, 0.0, Limits(60.0, 600.0), token_error=error)
    assert line.next_token_at == 60.0
    assert settle(Timeline(), 0.0, Limits(60.0, 600.0), token_error=-error).next_token_at == -60.0


def test_what_lies_too_far_ahead_comes_back() -> None:
    far = Timeline(1e6, 1e6, 1e6)
    assert in_reach(far, 0.0, Limits(60.0, 600.0)) == Timeline(76.0, 60.0, 3600.0)
    near = Timeline(5.0, 6.0, 7.0)
    assert in_reach(near, 0.0, Limits(60.0, 600.0)) == near


@pytest.mark.parametrize("wrong", [0.0, 0.5, float("nan"), float("inf")])
def test_limits_that_are_none_are_refused(wrong: float) -> None:
    with pytest.raises(ValueError):
        Limits(wrong)


# --- a hidden limit -----------------------------------------------------------------------------------


def converge(hidden: float, start: float, seconds: float) -> tuple[float, int]:
    """A vendor with a bucket of one second: the share of its limit used, and refusals, in the last half."""
    state, level, owed, used, refused = Permitted(rate=start), hidden / 60, 0.0, 0, 0
    step = 0.05
    for tick in range(int(seconds / step)):
        now, push, answers = tick * step, Push.NONE, 0
        level = min(level + hidden / 60 * step, hidden / 60)
        owed += (state.rate or 0.0) / 60 * step
        while owed >= 1:
            owed -= 1
            if level >= 1:
                level -= 1
                answers += 1
            else:
                push = Push.REFUSED
        if now > seconds / 2:
            used, refused = used + answers, refused + (push is Push.REFUSED)
        state = adjust(count(state, now, answers), now, push, stated=None, booked_until=now)
    return used / (hidden / 60 * seconds / 2), refused


@pytest.mark.parametrize("hidden", [120.0, 1200.0, 12_000.0])
@pytest.mark.parametrize("start", [6.0, 1000.0, 30_000.0])
def test_the_rate_finds_a_hidden_limit(hidden: float, start: float) -> None:
    used, refused = converge(hidden, start, 400.0)
    assert used >= 0.95
    assert refused <= 0.02 * hidden / 60 * 200


def test_a_stated_limit_is_where_the_repair_ends() -> None:
    state, now = Permitted(), 0.0
    state = adjust(count(state, now, 0), now, Push.REFUSED, stated=600.0, booked_until=now)
    assert state.rate == pytest.approx(552.0)
    for _ in range(10):
        now += 1.0
        state = adjust(state, now, Push.NONE, stated=600.0, booked_until=now)
    assert state.rate is None


def test_a_limit_of_tokens_alone_is_not_taken_for_a_hidden_one_of_requests() -> None:
    """Refusals now and then, 40 answers a second: the rate is soon no bound again, it does not ratchet."""
    state, bound = Permitted(), 0
    for now in range(1, 121):
        push = Push.REFUSED if now % 6 == 0 else Push.NONE
        state = adjust(
            count(state, now, 40), now, push, stated=None, booked_until=now, tokens_stated=True
        )  # fmt: skip
        bound += state.rate is not None and state.rate < 2400 * 0.9
    assert bound == 0
    state = adjust(count(state, 121, 40), 121, Push.NONE, stated=None, booked_until=121, tokens_stated=True)
    assert state.rate is None or state.rate < 2 * 2400


def test_a_rate_that_is_not_used_does_not_grow() -> None:
    state = adjust(Permitted(rate=100.0), 10.0, Push.NONE, stated=None, booked_until=5.0)
    assert state.rate == 100.0


def test_a_refusal_before_any_answer_leaves_a_rate_to_work_with() -> None:
    """A worker that has only begun knows of no answers; at one call a minute it would stand still."""
    cut = adjust(Permitted(), 0.0, Push.REFUSED, stated=None, booked_until=0.0)
    assert cut.rate == FIRST
    assert adjust(cut, 2.0, Push.REFUSED, stated=None, booked_until=2.0).rate == pytest.approx(FIRST / 2)


def test_a_rate_that_nothing_stops_grows_no_further_than_any_vendor_lets_through() -> None:
    state = Permitted(rate=FIRST)
    for second in range(1, 200):
        state = adjust(state, float(second), Push.NONE, stated=None, booked_until=float(second))
    assert state.rate == MOST


def test_one_cut_a_second() -> None:
    state = adjust(Permitted(rate=100.0), 10.0, Push.LOW, stated=None, booked_until=10.0)
    assert adjust(state, 10.5, Push.LOW, stated=None, booked_until=10.5).rate == state.rate == 90.0
    assert adjust(state, 11.0, Push.LOW, stated=None, booked_until=11.0).rate == pytest.approx(81.0)


def test_a_count_that_has_only_begun_is_not_taken_for_a_low_rate() -> None:
    state = count(Permitted(), 1.0, 10)
    assert answered_per_minute(state, 1.0) == pytest.approx(630.5, abs=1)


# --- what vendors state -------------------------------------------------------------------------------


def test_limits_as_the_vendors_state_them() -> None:
    told = RateLimits(Allowance(500, 499, 0.12), Allowance(30_000, 29_000, 2.0))
    assert stated_limits(told, 0.8) == Limits(500.0, 30_000.0)


def test_input_and_output_apart_give_the_tighter_total() -> None:
    told = RateLimits(input_tokens=Allowance(40_000), output_tokens=Allowance(8_000))
    assert stated_limits(told, 0.75) == Limits(None, 32_000.0)
    assert stated_limits(told, 0.5) == Limits(None, 16_000.0)


def test_a_limit_per_day_is_none_per_minute() -> None:
    assert stated_limits(RateLimits(Allowance(14_400, 14_370, 180.0)), 0.8) == Limits()


def low_after(*told: tuple[float, int, int, float]) -> bool:
    watch, low = Remainders(), False
    for at, limit, left, reset in told:
        low = watch.low(at, RateLimits(Allowance(limit, left, reset)))
    return low


def test_little_left_for_a_second_means_that_others_use_the_account() -> None:
    assert low_after((0.0, 600, 500, 10.0), (1.0, 600, 30, 57.0), (2.1, 600, 20, 58.0))
    assert not low_after((0.0, 600, 500, 10.0), (1.0, 600, 30, 57.0))
    assert not low_after(
        (0.0, 600, 500, 10.0), (1.0, 600, 30, 57.0), (1.5, 600, 100, 50.0), (2.1, 600, 20, 58.0)
    )


def test_a_window_that_is_about_to_end_may_be_nearly_empty() -> None:
    assert not low_after((0.0, 600, 500, 50.0), (50.0, 600, 50, 5.0), (52.0, 600, 30, 3.0))


def test_a_small_bucket_tells_nothing() -> None:
    assert not low_after((0.0, 60, 1, 1.0), (1.0, 60, 0, 1.0), (3.0, 60, 0, 1.0))
