"""Spend caps as a worker keeps them: draws at claim, settles at finish, asks the database once a second."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Protocol

from assay.domain.failures import ConfigurationError
from assay.domain.spend import (
    COVERED_BYTES,
    SpendAccount,
    SpendStop,
    Standing,
    cap_reached,
    check_price,
    covering,
    run_cap_reached,
)
from assay.domain.work import CallRecord, ClaimedTask
from assay.telemetry import tell

# What is asked for ahead follows use: so many times what the last second took.
_AHEAD: Final = 4
# Bytes of UTF-8 that one character takes at most.
_MOST_BYTES: Final = 4


class ReservationPort(Protocol):
    """What one worker holds of one pipeline's caps.

    `renew` holds on to `held` whatever the caps say, and to as much of `wanted` more as they leave, if that
    is `step` at least: less than one claim's worst case helps nobody. `raise_reserve` makes sure that a lost
    call of the version is charged at `reserve` at least, and returns what it is charged at. `longest_text` is
    the most bytes that a text of the version's unfinished tasks has. `release` gives everything back.
    """

    async def renew(self, *, held: Decimal, wanted: Decimal, step: Decimal) -> Standing: ...

    async def raise_reserve(self, reserve: Decimal) -> Decimal: ...

    async def longest_text(self) -> int: ...

    async def release(self) -> None: ...


class FreeOfCharge:
    """The port of a model that costs nothing: no cap concerns it."""

    async def renew(self, *, held: Decimal, wanted: Decimal, step: Decimal) -> Standing:
        return Standing(None, granted=held)

    async def release(self) -> None:
        """Nothing is held."""

    async def raise_reserve(self, reserve: Decimal) -> Decimal:
        return reserve

    async def longest_text(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class SpendTerms:
    """What a run may spend, and how it is reckoned.

    `reserve`: the worst case of one call in `currency` with a text of `COVERED_BYTES`; None where no price is
    known. `max_spend`: the run's own cap. `first`: tasks that the first reservation is made for.
    `drawing_seconds`: how long after its last answer from the database a worker may go on drawing; far less
    than a reservation lives. `per_byte`: what each byte of UTF-8 beyond `COVERED_BYTES` adds to the reserve.
    """

    reserve: Decimal | None
    currency: str | None
    max_spend: Decimal | None = None
    first: int = 64
    drawing_seconds: float = 10.0
    per_byte: Decimal = Decimal(0)


class SpendGuard:
    """Says how many tasks may be claimed. Without any cap that is as many as one likes; it keeps counting all
    the same, so that a cap set meanwhile holds from the next `sync` on.

    The reserve follows the longest text: whoever brings texts into play calls `note_texts` before they can be
    claimed, or, where the database chose them, before they are started.

    In this order: `start`; then `take` before each claim and `claimed` after it, `charge` for a first pass
    that is noted, `settle` for each finish that is answered, `lost` for each task that somebody took over;
    `sync` once a second; `close`.
    """

    def __init__(self, port: ReservationPort, terms: SpendTerms) -> None:
        self._port = port
        self._terms = terms
        self._account = SpendAccount(terms.reserve or Decimal(0))
        self._capped = False
        self._drawable_until = 0.0
        self._used = 0
        self._asked = False
        self._told = 0
        self._covered = COVERED_BYTES
        # The reserve that the database charges for a lost call, as far as we know.
        self._lodged = self._account.reserve
        self.stop: SpendStop | None = None

    @property
    def spent(self) -> Decimal:
        """What this run's calls cost so far, unknown costs at their reserve."""
        return self._account.spent

    @property
    def reserve(self) -> Decimal:
        """The worst case of one call just now; 0 where no price is known."""
        return self._account.reserve

    async def start(self) -> None:
        """Make the first reservation. Raises `ConfigurationError` for a cap without a known price."""
        check_price(None, self._terms.max_spend, self._terms.currency)
        if self._terms.per_byte > 0:
            # What earlier runs left is claimed from the database, which chooses it unseen.
            self.note_size(await self._port.longest_text())
        await self._lodge()
        check_price((await self._renew(self._terms.first)).caps, None, self._terms.currency)

    # --- the reserve ----------------------------------------------------------------------------------

    def note_texts(self, texts: Iterable[str]) -> None:
        """These texts are in play from now on. Costs nothing where no price is known."""
        if self._terms.per_byte == 0:
            return
        for text in texts:
            # Most texts are short: only what may be longer than all before is encoded.
            if len(text) * _MOST_BYTES > self._covered:
                self.note_size(len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")))

    def note_size(self, utf8_bytes: int) -> None:
        """A text of so many bytes is in play: the reserve covers it from now on, for all that is in hand."""
        if self._terms.reserve is None or utf8_bytes <= self._covered:
            return
        self._covered = covering(utf8_bytes)
        longer = self._covered - COVERED_BYTES
        self._account.raise_reserve(self._terms.reserve + self._terms.per_byte * longer)

    def bytes_for(self, tasks: int) -> int | None:
        """How long the texts of so many drawn tasks may be together; None: no cap says anything."""
        return None if self.room() is None else tasks * self._covered

    async def _lodge(self) -> None:
        """Before anything is drawn at a new reserve, lost calls are charged at it. What other workers of the
        version have met may come to us: their reserve is ours.

        At each look: a run that begins registers the version's reserve anew.
        """
        if self._account.reserve > 0:
            self._lodged = await self._port.raise_reserve(self._account.reserve)
            self._account.raise_reserve(self._lodged)

    # --- drawing --------------------------------------------------------------------------------------

    def room(self) -> int | None:
        """How many tasks may be claimed now; None: no cap says anything."""
        account, rooms = self._account, []
        if account.reserve == 0:
            return None
        if self._capped:
            fresh = asyncio.get_running_loop().time() < self._drawable_until
            drawable = fresh and account.free > 0 and account.reserve <= self._lodged
            rooms.append(int(account.free // account.claim) if drawable else 0)
        if self._terms.max_spend is not None:
            # The lost call of a dead worker is no call of this run: its own cap does not count it.
            left = self._terms.max_spend - account.spent - (account.tasks + account.claiming) * account.task
            rooms.append(max(int(left // account.task), 0))
        return min(rooms, default=None)

    def take(self, most: int) -> int:
        """Draw for up to `most` tasks that are about to be claimed; returns for how many."""
        room = self.room()
        drawn = most if room is None else min(most, room)
        self._asked = self._asked or most > 0
        self._account.draw(drawn)
        return drawn

    def claimed(self, drawn: int, tasks: Sequence[ClaimedTask]) -> None:
        """The claim that `drawn` was taken for has won these tasks."""
        self._used += len(tasks)
        self._account.claimed(drawn, len(tasks), sum(task.taken_over for task in tasks))

    # --- settling -------------------------------------------------------------------------------------

    def charge(self, calls: Iterable[CallRecord]) -> None:
        """Calls of a task that is still in hand are in the ledger."""
        self._account.charge(calls)
        self._tell_overruns()

    def settle(self, calls: Iterable[CallRecord]) -> None:
        """A task's finish is answered, with these calls."""
        self._account.settle(calls)
        self._tell_overruns()

    def lost(self) -> None:
        """A task was taken over before its finish was sent."""
        self._account.lose()

    def _tell_overruns(self) -> None:
        """A true cost above the reserve is a way past a cap: it is never silent."""
        if self._account.overruns > self._told:
            self._told = self._account.overruns
            tell("call_over_reserve", count=self._told, cost=self._account.overrun)

    # --- the database ---------------------------------------------------------------------------------

    async def sync(self) -> SpendStop | None:
        """Renew the reservation, ask for more or give back; the stop, once nothing can go on.

        A stop is told when a task was asked for, none is in hand, and a cap has no room for one more.
        """
        asked, used, account = self._asked, self._used, self._account
        self._asked, self._used = False, 0
        await self._lodge()
        unused = account.reserve > 0 and account.free >= account.claim
        # Who was given something and did not use it gives it back, and asks again a second later.
        ahead = _AHEAD * used or int(asked and not unused)
        standing = await self._renew(ahead)
        if self.stop is None:
            self.stop = self._stop(standing, asked=asked)
        return self.stop

    async def _renew(self, ahead: int) -> Standing:
        account, now = self._account, asyncio.get_running_loop().time()
        wanted = ahead * account.claim
        # What goes back is out of reach before the database hears of it.
        account.free = min(account.free, wanted)
        held, free = account.held, account.free
        standing = await self._port.renew(held=held, wanted=wanted, step=account.claim)
        # What was drawn, spent and given back while the question was under way comes on top.
        account.free = standing.granted - held + (account.free - free)
        self._capped = standing.caps is not None
        self._drawable_until = now + self._terms.drawing_seconds
        return standing

    def _stop(self, standing: Standing, *, asked: bool) -> SpendStop | None:
        try:
            check_price(standing.caps, None, self._terms.currency)
        except ConfigurationError as unusable:
            return SpendStop("spend_cap_unusable", str(unusable))
        if not asked or not self._account.idle:
            return None
        stop = cap_reached(standing, self._account.claim)
        if stop is None and self._terms.max_spend is not None:
            stop = run_cap_reached(self._terms.max_spend, self._account.spent, self._account.task)
        return stop

    async def close(self) -> None:
        """Give back what is left."""
        await self._port.release()
