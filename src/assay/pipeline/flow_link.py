"""Speaks with the account's row: about once a second, and at once when something cannot wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from assay.domain.account import AccountReport, AccountView, Booking
from assay.domain.breaker import Failure
from assay.domain.pacing import Ask
from assay.ports import AccountPort
from assay.telemetry import tell

_LAST_WORDS_SECONDS: Final = 2.0
_LONGEST_PAUSE: Final = 5.0


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What the link asks of the flow, and tells it.

    `report`: what to tell, None: only look. `unheard`: the account did not get that report. `adopt`: the
    account as it stands; the flag is False while moves of the breaker are still to be told. `wants_probe`:
    whether to ask for the probe. `pause`: seconds until the next turn. `failed`: the link has broken down.
    """

    report: Callable[[], AccountReport | None]
    unheard: Callable[[AccountReport], None]
    adopt: Callable[[AccountView, bool], None]
    wants_probe: Callable[[], bool]
    pause: Callable[[], float]
    failed: Callable[[BaseException], None]


class AccountLink:
    """One background task. While the database is away it tries again, and the flow keeps what it has."""

    def __init__(self, port: AccountPort, callbacks: Callbacks, chance: Callable[[], float]) -> None:
        self._port = port
        self._tell = callbacks
        self._chance = chance
        self._moves: deque[tuple[str, Failure | None]] = deque()
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._away = 0

    async def start(self) -> None:
        """Learn how the account stands, then go on in the background. Raises `ConnectionError`."""
        await self._port.enter()
        await self._turn()
        self._task = asyncio.create_task(self._run(), name="account")
        self._task.add_done_callback(self._ended)

    def wanted(self) -> None:
        """Something cannot wait for the next turn."""
        self._wanted.set()

    def send(self, move: str, failure: Failure | None) -> None:
        """A move of the breaker, in the words of `AccountPort`."""
        self._moves.append((move, failure))
        self._wanted.set()

    async def aclose(self, unused: tuple[Booking, int, float] | None) -> None:
        """End; what is still to be told is told if the database answers soon."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await self._send_moves()
                if unused is not None:
                    await self._port.give_back(*unused)
                report = self._tell.report()
                if report is not None:
                    await self._port.sync(replace(report, ask=Ask()))
        except (ConnectionError, TimeoutError) as error:
            tell("account_unreachable", account=self._port.account, error=error)

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._pause()):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            try:
                await self._turn()
                self._away = 0
            except ConnectionError as error:
                self._away += 1
                if self._away == 1:
                    tell("account_unreachable", account=self._port.account, error=error)
                await asyncio.sleep(min(0.1 * 2.0**self._away, _LONGEST_PAUSE) * (0.5 + self._chance() / 2))

    def _pause(self) -> float:
        return max(self._tell.pause(), 0.005)

    async def _turn(self) -> None:
        await self._send_moves()
        if self._tell.wants_probe():
            await self._port.begin_probe()
            self._tell.adopt(await self._port.look(), not self._moves)
            return
        await self._send_moves()
        report = self._tell.report()
        if report is None:
            self._tell.adopt(await self._port.look(), not self._moves)
            return
        try:
            view = await self._port.sync(report)
        except ConnectionError:
            self._tell.unheard(report)
            raise
        self._tell.adopt(view, not self._moves)

    async def _send_moves(self) -> None:
        while self._moves:
            move, failure = self._moves[0]
            await self._send(move, failure)
            self._moves.popleft()

    async def _send(self, move: str, failure: Failure | None) -> None:
        match move:
            case "probe_succeeded":
                await self._port.probe_succeeded()
            case "probe_unused":
                await self._port.probe_unused()
            case "probe_failed" if failure is not None:
                await self._port.probe_failed(failure)
            case "open_breaker" if failure is not None:
                await self._port.open_breaker(failure)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._tell.failed(failure)
