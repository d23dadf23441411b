"""Money: caps, what a task may cost at worst, and a worker's account of what it may still spend.

A task is drawn for at its worst case before it is claimed and settled at what its calls cost. A call whose
cost nobody told counts at its reserve: it may have been billed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

from assay.domain.failures import ConfigurationError
from assay.domain.work import CallRecord

# Calls that an attempt makes at most: first pass and correction.
TASK_CALLS: Final = 2
# A claim may take a task over: the call that the dead worker may have made is charged with it.
CLAIM_CALLS: Final = TASK_CALLS + 1
# Bytes of a record's text, in UTF-8, that the reserve of a version covers before any longer text is seen.
COVERED_BYTES: Final = 4096

# Sizes are rounded up to so many binary digits: reserves rise in few steps, of 1/8 at most.
_SIZE_DIGITS: Final = 4

_ZERO: Final = Decimal(0)


@dataclass(frozen=True, slots=True)
class Caps:
    """What a pipeline may cost per UTC day and in total, in `currency`; None where there is no such cap."""

    day: Decimal | None
    total: Decimal | None
    currency: str


@dataclass(frozen=True, slots=True)
class Standing:
    """How a pipeline stands against its caps at one moment, and what a worker holds of them from then on.

    `spent_today` and `spent_total` are the ledger's, calls of unknown cost at their reserve. `reserved` is
    what other workers hold. `granted` covers what the worker said it cannot give back, and new room.
    """

    caps: Caps | None
    spent_today: Decimal = _ZERO
    spent_total: Decimal = _ZERO
    reserved: Decimal = _ZERO
    granted: Decimal = _ZERO


@dataclass(frozen=True, slots=True)
class SpendStop:
    """Money stops the version: records wait, none is burnt. `sentence` says what to do."""

    code: str
    sentence: str


def cap_reached(standing: Standing, claim: Decimal) -> SpendStop | None:
    """The stop where not even one task fits under a cap, whatever other workers give back."""
    caps = standing.caps
    if caps is None:
        return None
    for kind, cap, spent in (
        ("day", caps.day, standing.spent_today),
        ("total", caps.total, standing.spent_total),
    ):
        what = "for this UTC day " if kind == "day" else ""
        if cap is not None and claim > cap:
            return SpendStop(
                "spend_cap_reached",
                f"The cap {what}of {cap:f} {caps.currency} is too little for any record: one may cost "
                f"{claim:f}; set {claim:f} or more with `assay budget set` (less with `max_tokens` among the "
                "pipeline's parameters), then run the same command again.",
            )
        if cap is not None and spent + claim > cap:
            later = ", or wait for the next one" if kind == "day" else ""
            return SpendStop(
                "spend_cap_reached",
                f"The cap {what}of {cap:f} {caps.currency} is used up ({spent:f} spent, one record may cost "
                f"{claim:f}: less with `max_tokens` among the pipeline's parameters); raise it with `assay "
                f"budget set`{later}, then run the same command again.",
            )
    return None


def run_cap_reached(cap: Decimal, spent: Decimal, task: Decimal) -> SpendStop | None:
    """The stop where this run's own cap leaves no room for one more task."""
    if spent + task <= cap:
        return None
    if task > cap:
        return SpendStop(
            "spend_cap_reached",
            f"--max-spend {cap:f} is too little for any record: one may cost {task:f}, for a call and its "
            f"correction; give {task:f} or more (less with `max_tokens` among the pipeline's parameters).",
        )
    return SpendStop(
        "spend_cap_reached",
        f"--max-spend {cap:f} is used up ({spent:f} spent, one record may cost {task:f}); run the same "
        "command again to go on.",
    )


def check_price(caps: Caps | None, max_spend: Decimal | None, currency: str | None) -> None:
    """Raises `ConfigurationError` for a cap that cannot be kept: no known price, or another currency."""
    if caps is None and max_spend is None:
        return
    if currency is None:
        raise ConfigurationError(
            "A spend cap needs to know what a call may cost; state it in the pipeline: price=Price(...)."
        )
    if caps is not None and caps.currency != currency:
        raise ConfigurationError(
            f"The cap is in {caps.currency} and the pipeline's price in {currency}; set the cap in "
            f"{currency} with `assay budget set --currency {currency}`."
        )


def amount(text: str) -> Decimal:
    """An amount of money as a person writes it. Raises `ConfigurationError`."""
    try:
        read = Decimal(text)
    except InvalidOperation:
        read = Decimal("NaN")
    if not text.isascii() or not read.is_finite() or read < 0:
        raise ConfigurationError("An amount of money is a number, 0 or more, such as 50 or 12.5.")
    return abs(read)


def covering(utf8_bytes: int) -> int:
    """The size for which the reserve is reckoned so that a text of `utf8_bytes` is covered."""
    if utf8_bytes <= COVERED_BYTES:
        return COVERED_BYTES
    digits = max(utf8_bytes.bit_length() - _SIZE_DIGITS, 0)
    return -(-utf8_bytes >> digits) << digits


def cost_of(calls: Iterable[CallRecord], reserve: Decimal) -> Decimal:
    """What calls count at; billed ones of unknown cost at their reserve."""
    return sum(
        ((reserve if call.billed else _ZERO) if call.cost is None else call.cost for call in calls), _ZERO
    )


class SpendAccount:
    """A worker's account, in plain numbers: what is free to draw, what is out, what was spent.

    `reserve` is the worst case of one call; it only grows. What was granted is always `free` + `held` + what
    was spent of it since: a task's draw stays out until it is settled, although its first call may be in the
    ledger.
    """

    def __init__(self, reserve: Decimal) -> None:
        self.reserve = reserve
        self.free = _ZERO
        self.spent = _ZERO
        self.tasks = 0
        self.claiming = 0
        self.overruns = 0
        self.overrun = _ZERO

    @property
    def task(self) -> Decimal:
        """The worst case of a task in hand."""
        return TASK_CALLS * self.reserve

    @property
    def claim(self) -> Decimal:
        """The worst case of a task that is being claimed."""
        return CLAIM_CALLS * self.reserve

    @property
    def held(self) -> Decimal:
        """What is drawn and cannot be given back."""
        return self.tasks * self.task + self.claiming * self.claim

    @property
    def idle(self) -> bool:
        """Whether nothing is in hand."""
        return self.tasks == 0 and self.claiming == 0

    def raise_reserve(self, reserve: Decimal) -> None:
        """A call may cost more than was thought: what is in hand is held at that from now on.

        `free` falls by as much, below 0 if need be: then nothing is drawn until enough has come back.
        """
        if reserve > self.reserve:
            held = self.held
            self.reserve = reserve
            self.free -= self.held - held

    def draw(self, claims: int) -> None:
        """Draw for claims that are about to be made."""
        self.claiming += claims
        self.free -= claims * self.claim

    def claimed(self, drawn: int, won: int, taken_over: int) -> None:
        """A claim has answered: tasks won stay drawn, lost calls are in the ledger, the rest comes back."""
        self.claiming -= drawn
        self.tasks += won
        self.free += drawn * self.claim - won * self.task - taken_over * self.reserve

    def charge(self, calls: Iterable[CallRecord]) -> None:
        """Calls that the ledger has by now; the task that they belong to stays drawn.

        A true cost above the reserve is the reserve from then on.
        """
        for call in calls:
            cost = cost_of((call,), self.reserve)
            self.free -= cost
            self.spent += cost
            if cost > self.reserve:
                self.overruns += 1
                self.overrun += cost - self.reserve
                self.raise_reserve(cost)

    def settle(self, calls: Iterable[CallRecord]) -> None:
        """A task is out of our hands: its draw comes back, less what its calls cost."""
        self.tasks -= 1
        self.free += self.task
        self.charge(calls)

    def lose(self) -> None:
        """Somebody took a task over, whose claim charged one call of ours at its reserve."""
        self.tasks -= 1
        self.free += self.task - self.reserve
        self.spent += self.reserve
