"""A vendor account as its workers share it."""

from __future__ import annotations

from typing import Protocol

from assay.domain.account import AccountReport, AccountView, Booking
from assay.domain.breaker import Failure


class AccountPort(Protocol):
    """A vendor account as one worker sees it; all of its workers share limits, pace and breaker.

    Every method raises `ConnectionError` while the database is away. `sync` tells what was seen and books
    what is asked for. The breaker's moves do nothing where another worker was first: `look` tells.
    """

    @property
    def worker(self) -> str: ...

    @property
    def account(self) -> str: ...

    async def enter(self) -> None: ...

    async def look(self) -> AccountView: ...

    async def sync(self, report: AccountReport) -> AccountView: ...

    async def give_back(self, booking: Booking, requests: int, tokens: float) -> None: ...

    async def open_breaker(self, failure: Failure) -> None: ...

    async def begin_probe(self) -> None: ...

    async def probe_succeeded(self) -> None: ...

    async def probe_failed(self, failure: Failure) -> None: ...

    async def probe_unused(self) -> None: ...
