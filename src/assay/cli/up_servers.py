"""The embedded database and broker of `assay up`: held, brought back when they are gone, given back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from assay.adapters.embedded.broker import BrokerLease, EmbeddedBroker
from assay.adapters.embedded.server import EmbeddedServer, Lease
from assay.adapters.kafka.security import connection_of
from assay.adapters.kafka.topics import make_topics
from assay.cli.up_places import Plan
from assay.config import Settings
from assay.domain.failures import AssayError

_LOOK_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 5.0


class Servers:
    """What a plan needs: leases on what is embedded, and the topics. `trouble`: why something is missing.

    `broker_lives` counts the lives of the embedded broker that had their topics made.
    """

    def __init__(self, settings: Settings, plan: Plan, progress: Callable[[str], None] | None = None) -> None:
        self._environment = settings.environment
        self._plan = plan
        own = settings.database_url is not None
        self._server = None if own else EmbeddedServer(settings.project, progress=progress)
        self._broker = None if plan.brokers else EmbeddedBroker(settings.project, progress=progress)
        self._database_lease: Lease | None = None
        self._broker_lease: BrokerLease | None = None
        self._look_at = 0.0
        self._topics_of: str | None = None
        self.bootstrap = plan.brokers
        self.trouble = ""
        self.broker_lives = 0

    def hold(self) -> None:
        """Have all of it. Raises `AssayError` for what cannot be had."""
        if self._server is not None and not (self._database_lease and _supervised(self._server)):
            database = self._server.acquire()
            if self._database_lease is not None:
                self._database_lease.release()
            self._database_lease = database
        if self._broker is not None and not (
            self._broker_lease and _answering(self._broker, self._topics_of)
        ):
            broker = self._broker.acquire()
            if self._broker_lease is not None:
                self._broker_lease.release()
            self._broker_lease, self.bootstrap = broker, broker.bootstrap
        self._make_topics()

    def tick(self) -> None:
        """Look now and then; what is gone is brought back."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_SECONDS
        try:
            self.hold()
            self.trouble = ""
        except AssayError as error:
            self.trouble = str(error)
            self._look_at = time.monotonic() + _AGAIN_SECONDS

    def release(self) -> None:
        """Give everything back."""
        for lease in (self._database_lease, self._broker_lease):
            if lease is not None:
                lease.release()
        self._database_lease = self._broker_lease = None

    def _make_topics(self) -> None:
        """Once for each life of the embedded broker, which forgets them; once for another."""
        life = self._plan.brokers if self._broker is None else self._broker.status().cluster_id or ""
        if life and life != self._topics_of:
            make_topics(connection_of(self._environment, self.bootstrap), self._plan.topics)
            self._topics_of = life
            self.broker_lives += 1


def _supervised(server: EmbeddedServer) -> bool:
    status = server.status()
    return status.running and status.supervisor_pid is not None


def _answering(broker: EmbeddedBroker, life: str | None) -> bool:
    status = broker.status()
    return status.running and status.cluster_id == life
