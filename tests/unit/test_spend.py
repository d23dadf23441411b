"""A worker's account of money: nothing is made or lost, whatever the order in which tasks come and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from decimal import Decimal
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.domain.failures import ConfigurationError
from assay.domain.spend import (
    COVERED_BYTES,
    Caps,
    SpendAccount,
    Standing,
    amount,
    cap_reached,
    check_price,
    cost_of,
    covering,
    run_cap_reached,
)
from assay.domain.work import CallOutcome, CallRecord, ClaimedTask
from assay.pipeline.model_watch import ModelWatch
from assay.pipeline.spend import SpendGuard, SpendTerms

RESERVE = Decimal("0.01")
TASK = 2 * RESERVE
CLAIM = 3 * RESERVE


def call(cost: str | None = "0.001", *, billed: bool = True, model: str | None = None) -> CallRecord:
    return CallRecord(1, CallOutcome.ACCEPTED, cost=None if cost is None else Decimal(cost), billed=billed,
                      model=model)  # fmt: skip


def task(*, taken_over: bool = False) -> ClaimedTask:
    return ClaimedTask(
        task_id=1, attempt_id=uuid4(), record_id="r", input_version=1, sha256=b"", text="", text_ref=1,
        key=b"", attempts=1, first_pass_code=None, quality_selected=False, tries=1, take_overs=0,
        age_seconds=0.0, taken_over=taken_over,
    )  # fmt: skip


def test_a_cap_below_the_worst_case_of_one_record_says_what_is_enough() -> None:
    too_little = run_cap_reached(Decimal("0.001"), Decimal(0), TASK)
    assert too_little is not None
    assert "too little for any record" in too_little.sentence
    assert f"give {TASK:f} or more" in too_little.sentence
    assert run_cap_reached(TASK, Decimal(0), TASK) is None
    used_up = run_cap_reached(TASK, RESERVE, TASK)
    assert used_up is not None
    assert "is used up" in used_up.sentence
    day = cap_reached(Standing(Caps(Decimal("0.02"), None, "USD")), CLAIM)
    assert day is not None
    assert f"set {CLAIM:f} or more" in day.sentence


class Ledger:
    """A pipeline's caps with one worker and nobody else, without a database."""

    def __init__(self, day: str | None = None, total: str | None = None, currency: str = "USD") -> None:
        per_day, in_all = (None if cap is None else Decimal(cap) for cap in (day, total))
        self.caps: Caps | None = None if day is total is None else Caps(per_day, in_all, currency)
        self.spent = Decimal(0)
        self.others = Decimal(0)
        self.granted = Decimal(0)
        self.renewals = 0
        self.call_reserve = Decimal(0)
        self.longest = 0

    async def renew(self, *, held: Decimal, wanted: Decimal, step: Decimal) -> Standing:
        self.renewals += 1
        if self.caps is None:
            return Standing(None, granted=held)
        caps = [cap for cap in (self.caps.day, self.caps.total) if cap is not None]
        left = max(min(caps) - self.spent - self.others - held, Decimal(0))
        self.granted = held + (min(wanted, left) if min(wanted, left) >= step else 0)
        return Standing(self.caps, self.spent, self.spent, self.others, self.granted)

    async def raise_reserve(self, reserve: Decimal) -> Decimal:
        self.call_reserve = max(self.call_reserve, reserve)
        return self.call_reserve

    async def longest_text(self) -> int:
        return self.longest

    async def release(self) -> None:
        self.granted = Decimal(0)


def guard(ledger: Ledger, *, max_spend: str | None = None, reserve: Decimal | None = RESERVE,
          first: int = 4, drawing_seconds: float = 60.0,
          per_byte: Decimal = Decimal(0)) -> SpendGuard:  # fmt: skip
    limit = None if max_spend is None else Decimal(max_spend)
    currency = None if reserve is None else "USD"
    return SpendGuard(ledger, SpendTerms(reserve, currency, limit, first, drawing_seconds, per_byte))


# --- the account --------------------------------------------------------------------------------------


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, int]]:
    kinds = st.sampled_from(["draw", "claimed", "charge", "settle", "lose", "raise"])
    return draw(st.lists(st.tuples(kinds, st.integers(0, 5)), max_size=40))


@given(steps())
def test_what_was_granted_is_free_held_or_spent(moves: Sequence[tuple[str, int]]) -> None:
    account = SpendAccount(RESERVE)
    account.free = granted = Decimal(10)
    lost = Decimal(0)
    for kind, number in moves:
        if kind == "draw":
            account.draw(number)
        elif kind == "claimed" and account.claiming:
            won = min(number, account.claiming)
            account.claimed(account.claiming, won, won // 2)
            lost += won // 2 * account.reserve
        elif kind == "charge" and account.tasks:
            account.charge([call(f"0.00{number}")])
        elif kind == "settle" and account.tasks:
            account.settle([call(f"0.00{number}")] * (number % 3))
        elif kind == "lose" and account.tasks:
            account.lose()
        elif kind == "raise":
            account.raise_reserve(number * RESERVE)
        assert account.free + account.held + account.spent + lost == granted
        assert account.held >= 0


def test_a_call_of_unknown_cost_counts_at_its_reserve_where_it_may_have_been_billed() -> None:
    assert cost_of([call("0.002"), call(None), call(None, billed=False)], RESERVE) == Decimal("0.012")
    assert cost_of([], RESERVE) == 0


def test_a_call_above_its_reserve_is_counted_apart() -> None:
    account = SpendAccount(RESERVE)
    account.draw(1)
    account.claimed(1, 1, 0)
    account.settle([call("0.03"), call("0.01")])
    assert (account.overruns, account.overrun, account.spent) == (1, Decimal("0.02"), Decimal("0.04"))
    assert account.reserve == Decimal("0.03"), "what was seen once may come again"


@pytest.mark.parametrize("text", ["", "x", "-1", "nan", "inf", "1e", "٣", "1,5"])
def test_an_amount_is_a_number(text: str) -> None:
    with pytest.raises(ConfigurationError, match="An amount of money"):
        amount(text)


@pytest.mark.parametrize(("text", "value"), [("0", "0"), ("-0", "0"), ("12.5", "12.5"), ("1e2", "100")])
def test_amounts_are_exact(text: str, value: str) -> None:
    assert amount(text) == Decimal(value)
    assert not amount(text).is_signed()


def test_a_cap_is_reached_when_not_one_task_fits() -> None:
    caps = Caps(Decimal(1), Decimal(5), "USD")
    assert cap_reached(Standing(None, Decimal(9), Decimal(9)), CLAIM) is None
    assert cap_reached(Standing(caps, Decimal("0.97"), Decimal("4.97")), CLAIM) is None
    day = cap_reached(Standing(caps, Decimal("0.98"), Decimal(1)), CLAIM)
    total = cap_reached(Standing(caps, Decimal(0), Decimal("4.98")), CLAIM)
    assert day is not None
    assert total is not None
    assert day.code == total.code == "spend_cap_reached"
    assert "UTC day" in day.sentence
    assert "UTC day" not in total.sentence
    assert "4.98 spent" in total.sentence
    # Others' reservations may come back: they stop nobody.
    assert cap_reached(Standing(caps, Decimal("0.5"), Decimal(1), reserved=Decimal("0.5")), CLAIM) is None
    assert run_cap_reached(Decimal(1), Decimal("0.98"), TASK) is None
    assert run_cap_reached(Decimal(1), Decimal("0.99"), TASK) is not None


def test_a_cap_needs_a_price_in_its_own_currency() -> None:
    caps = Caps(Decimal(1), None, "EUR")
    check_price(None, None, None)
    check_price(caps, Decimal(1), "EUR")
    for of_the_line, of_the_run in ((caps, None), (None, Decimal(1))):
        with pytest.raises(ConfigurationError, match=r"price=Price\(\.\.\.\)"):
            check_price(of_the_line, of_the_run, None)
    with pytest.raises(ConfigurationError, match="--currency USD"):
        check_price(caps, None, "USD")


# --- the guard ----------------------------------------------------------------------------------------


async def test_without_a_cap_there_is_room_for_everything() -> None:
    ledger = Ledger()
    money = guard(ledger)
    await money.start()
    assert money.room() is None
    assert money.take(500) == 500
    money.claimed(500, [task()] * 400)
    money.settle([call()])
    assert await money.sync() is None
    assert money.room() is None


async def test_a_worker_draws_what_it_was_granted_and_recycles_what_comes_back() -> None:
    ledger = Ledger(total="0.12")
    money = guard(ledger, first=100)
    await money.start()
    assert money.room() == 4
    assert money.take(3) == 3
    assert money.take(3) == 1
    assert money.take(3) == 0
    money.claimed(4, [task(), task(taken_over=True)])
    # Two draws came back, a lost call is charged, and each claim that was none gives back a third.
    assert money.room() == (12 - 2 * 2 - 1) // 3
    money.settle([call("0.001")])
    money.settle([call("0.001")])
    ledger.spent = Decimal("0.012")
    assert money.room() == 3
    await money.sync()
    assert money.room() == 3
    assert ledger.granted == Decimal("0.108")


async def test_what_is_not_used_goes_back_and_is_asked_for_again() -> None:
    ledger = Ledger(total="100")
    money = guard(ledger, first=10)
    await money.start()
    assert ledger.granted == 10 * CLAIM
    await money.sync()
    assert ledger.granted == 0
    assert money.room() == 0
    assert money.take(5) == 0
    await money.sync()
    assert money.room() == 1
    money.claimed(money.take(5), [])
    await money.sync()
    assert ledger.granted == 0
    assert money.take(5) == 0
    await money.sync()
    assert money.take(5) == 1
    money.claimed(1, [task()])
    await money.sync()
    assert money.room() == 4, "what is asked for follows use"


async def test_what_happens_while_the_database_answers_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(total="0.12")
    money = guard(ledger)
    await money.start()
    asked, answer = asyncio.Event(), asyncio.Event()
    renew = ledger.renew

    async def slow(*, held: Decimal, wanted: Decimal, step: Decimal) -> Standing:
        standing = await renew(held=held, wanted=wanted, step=step)
        asked.set()
        await answer.wait()
        return standing

    money.claimed(money.take(1), [task()])
    monkeypatch.setattr(ledger, "renew", slow)
    syncing = asyncio.create_task(money.sync())
    await asked.wait()
    assert money.take(2) == 2
    answer.set()
    await syncing
    assert money.room() == 1, "of three steps that were granted two were drawn meanwhile"


async def test_the_stop_comes_when_nothing_is_left_and_nothing_is_in_hand() -> None:
    ledger = Ledger(day="0.03")
    money = guard(ledger)
    await money.start()
    drawn = money.take(4)
    assert drawn == 1
    money.claimed(drawn, [task()])
    assert money.take(1) == 0
    ledger.spent = Decimal("0.01")
    assert await money.sync() is None, "what is in hand may cost less than its reserve"
    money.settle([call("0.01")])
    money.take(1)
    stop = await money.sync()
    assert stop is not None
    assert stop.code == "spend_cap_reached"
    assert money.stop is stop


async def test_others_reservations_make_a_worker_wait_not_stop() -> None:
    ledger = Ledger(total="1")
    ledger.others = Decimal("0.99")
    money = guard(ledger)
    await money.start()
    assert money.take(1) == 0
    assert await money.sync() is None
    ledger.others = Decimal(0)
    money.take(1)
    await money.sync()
    assert money.take(1) == 1


async def test_nobody_who_asks_for_nothing_is_stopped() -> None:
    money = guard(Ledger(total="0"))
    await money.start()
    assert await money.sync() is None


async def test_a_run_has_its_own_cap() -> None:
    money = guard(Ledger(), max_spend="0.05")
    await money.start()
    assert money.take(9) == 2
    money.claimed(2, [task(taken_over=True), task()])
    assert money.room() == 0
    money.settle([call("0.004")])
    assert money.room() == 1
    money.settle([call("0.02"), call("0.02")])
    assert money.spent == Decimal("0.044")
    assert money.take(1) == 0
    stop = await money.sync()
    assert stop is not None
    assert "--max-spend 0.05" in stop.sentence


async def test_a_cap_without_a_price_is_refused_at_the_start_and_stops_later() -> None:
    for money in (guard(Ledger(), max_spend="1", reserve=None), guard(Ledger(day="1"), reserve=None)):
        with pytest.raises(ConfigurationError, match=r"price=Price\(\.\.\.\)"):
            await money.start()
    ledger = Ledger()
    money = guard(ledger, reserve=None)
    await money.start()
    assert money.take(7) == 7
    ledger.caps = Caps(Decimal(1), None, "USD")
    stop = await money.sync()
    assert stop is not None
    assert stop.code == "spend_cap_unusable"


async def test_a_cap_set_meanwhile_holds_from_the_next_look_on() -> None:
    ledger = Ledger()
    money = guard(ledger)
    await money.start()
    money.claimed(money.take(20), [task()] * 20)
    ledger.caps = Caps(None, Decimal("0.46"), "USD")
    await money.sync()
    assert ledger.granted == 20 * TASK + 2 * CLAIM, "what is in hand cannot be given back"
    assert money.room() == 2
    ledger.caps = None
    await money.sync()
    assert money.room() is None


async def test_without_an_answer_of_the_database_drawing_ends() -> None:
    money = guard(Ledger(total="1"), drawing_seconds=0.0)
    await money.start()
    assert money.take(1) == 0


async def test_a_free_model_is_never_held_up() -> None:
    money = guard(Ledger(total="0"), reserve=Decimal(0))
    await money.start()
    assert money.take(1000) == 1000
    assert await money.sync() is None


async def test_a_call_above_its_reserve_is_told(caplog: pytest.LogCaptureFixture) -> None:
    money = guard(Ledger())
    await money.start()
    money.claimed(money.take(2), [task()] * 2)
    with caplog.at_level(logging.WARNING, "assay"):
        money.settle([call("0.01")])
        assert not caplog.records
        money.settle([call("0.05")])
    assert [record.getMessage() for record in caplog.records] == ["call_over_reserve"]


# --- long texts ---------------------------------------------------------------------------------------

PER_BYTE = Decimal("0.000001")


def _room(money: SpendGuard) -> int:
    room = money.room()
    assert room is not None
    return room


@given(st.integers(0, 1 << 40))
def test_a_size_is_covered_by_one_that_is_little_larger(size: int) -> None:
    assert size <= covering(size) <= max(COVERED_BYTES, size + size // 8 + 1)
    assert covering(covering(size)) == covering(size)


async def test_a_longer_text_raises_what_every_record_may_cost() -> None:
    ledger = Ledger(total="1")
    money = guard(ledger, per_byte=PER_BYTE)
    await money.start()
    money.claimed(money.take(2), [task()] * 2)
    assert money.room() == 2
    money.note_texts(["short", "a" * COVERED_BYTES])
    assert (money.reserve, money.room()) == (RESERVE, 2)
    money.note_texts(["short", "é" * 25_000])
    assert money.reserve >= RESERVE + PER_BYTE * (50_000 - COVERED_BYTES)
    assert _room(money) == 0, "before the database charges lost calls at it"
    assert ledger.call_reserve == RESERVE
    money.take(1)
    await money.sync()
    assert ledger.call_reserve == money.reserve
    assert ledger.granted >= 2 * 2 * money.reserve, "what is in hand is held at the new reserve"
    assert _room(money) > 0


async def test_what_was_drawn_before_a_long_text_came_is_reckoned_anew() -> None:
    money = guard(Ledger(), max_spend="0.5", per_byte=PER_BYTE)
    await money.start()
    assert money.take(2) == 2
    money.note_size(90_000)
    money.claimed(2, [task()])
    left = Decimal("0.5") - 2 * money.reserve
    assert money.room() == left // (2 * money.reserve) == 1


async def test_what_earlier_runs_left_and_what_others_met_counts() -> None:
    ledger = Ledger(total="9")
    ledger.longest = 100_000
    money = guard(ledger, per_byte=PER_BYTE)
    await money.start()
    assert money.reserve > PER_BYTE * 100_000
    assert money.room() == 4
    assert money.bytes_for(3) == 3 * covering(100_000)
    ledger.call_reserve = Decimal(1)
    await money.sync()
    assert money.reserve == 1


async def test_without_a_price_no_text_is_looked_at() -> None:
    looked_at: list[str] = []

    def texts() -> Iterator[str]:
        looked_at.append("a")
        yield "a" * 10_000

    money = guard(Ledger(), reserve=None)
    await money.start()
    money.note_texts(texts())
    money.note_size(1 << 30)
    assert looked_at == []
    assert money.reserve == 0
    assert money.room() is money.bytes_for(5) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 400_000), st.integers(1, 2)), min_size=20, max_size=120),
       st.integers(1, 12))  # fmt: skip
async def test_a_cap_holds_whatever_the_lengths_of_texts(
    records: list[tuple[int, int]], at_once: int
) -> None:
    """Bills of the whole reserve for each text, one or two calls; many records in hand at once."""
    ledger = Ledger(total="5")
    money = guard(ledger, per_byte=PER_BYTE, first=16)
    await money.start()
    in_hand: list[tuple[int, int]] = []
    for _ in range(6 * len(records)):
        batch = records[:at_once]
        if not batch and not in_hand:
            break
        for size, _ in batch:
            money.note_size(size)
        drawn = money.take(len(batch)) if batch else 0
        money.claimed(drawn, [task()] * drawn)
        in_hand += records[:drawn]
        del records[:drawn]
        for size, calls in in_hand[: at_once // 2 + 1]:
            cost = RESERVE + PER_BYTE * max(size - COVERED_BYTES, 0)
            ledger.spent += cost * calls
            money.settle([call(f"{cost}")] * calls)
        del in_hand[: at_once // 2 + 1]
        assert ledger.spent <= 5
        if await money.sync() is not None:
            break


# --- models -------------------------------------------------------------------------------------------


async def test_each_model_is_noted_once_and_everybody_waits_for_the_note() -> None:
    noted: list[str] = []
    go_on = asyncio.Event()

    async def note(model: str, request_id: str | None) -> bool:
        noted.append(model)
        await go_on.wait()
        return len(noted) > 1

    watch = ModelWatch(note)
    await watch.saw([call(), call(model="")])
    first, second, third = (asyncio.create_task(watch.saw([call(model="m-1")])) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    go_on.set()
    await asyncio.gather(second, third)
    await watch.saw([call(model="m-1"), call(model="m-2"), call(model="m-1")])
    assert noted == ["m-1", "m-2"]


async def test_a_note_that_fails_lets_no_answer_through() -> None:
    async def note(model: str, request_id: str | None) -> bool:
        raise ConnectionError

    watch = ModelWatch(note)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await watch.saw([call(model="m-1")])
