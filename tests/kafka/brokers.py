"""The broker under test, whichever it is: where it listens, who it is, how it is killed and started again."""

from __future__ import annotations

import os
import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from assay.adapters.embedded.broker import BrokerSettings, BrokerStatus, EmbeddedBroker
from assay.adapters.embedded.server import EmbeddedServer
from assay.adapters.embedded.state import Phase
from kafka.apache_kafka import ApacheKafka

KIND = os.environ.get("ASSAY_TEST_BROKER", "embedded")

_POLL_SECONDS = 0.02


class BrokerUnderTest(Protocol):
    """What every test may ask of a broker. `kind` is `apache` or `embedded`."""

    @property
    def kind(self) -> str: ...

    @property
    def bootstrap(self) -> str: ...

    @property
    def pid(self) -> int: ...

    def version(self) -> str: ...

    def kill(self) -> None:
        """SIGKILL, seen to have worked. The embedded one is started again by its supervisor, at once."""

    def restart(self) -> float:
        """After a kill: see it answer again, at the same address; the seconds that it took."""


class EmbeddedKafka:
    """The embedded broker of a project folder; it runs while `lease` is held."""

    kind = "embedded"

    def __init__(self, project: Path) -> None:
        self._project = project
        self._broker = EmbeddedBroker(project, settings=BrokerSettings(idle_grace=0.3))
        self._lease = self._broker.acquire()
        self._killed = ""

    @property
    def bootstrap(self) -> str:
        return self._lease.bootstrap

    @property
    def pid(self) -> int:
        pid = self._broker.status().pid
        assert pid is not None
        return pid

    def version(self) -> str:
        """The version that the program itself gives."""
        return f"Tansu {self._broker.status().version}"

    def kill(self) -> None:
        before = self._broker.status()
        assert before.pid is not None
        self._killed = before.cluster_id or ""
        os.kill(before.pid, signal.SIGKILL)
        _until(lambda: self._broker.status().pid != before.pid, "the end of the broker")

    def restart(self) -> float:
        began = time.monotonic()
        _until(lambda: _is_another(self._broker.status(), self._killed), "another life of the broker")
        return time.monotonic() - began

    def stop(self) -> None:
        """Give the lease back, end the broker, and remove what root keeps of it outside of the project."""
        self._lease.release()
        self._broker.stop(force=True)
        EmbeddedServer(self._project).remove()


def _is_another(status: BrokerStatus, killed: str) -> bool:
    return status.phase is Phase.READY and status.running and status.cluster_id != killed


@contextmanager
def running_broker() -> Iterator[ApacheKafka | EmbeddedKafka]:
    """A broker of the kind that ASSAY_TEST_BROKER names, for as long as it is used."""
    assert KIND in {"apache", "embedded"}, f"ASSAY_TEST_BROKER is {KIND!r}: name apache or embedded"
    with tempfile.TemporaryDirectory(prefix="assay-test-broker-") as folder:
        if KIND == "embedded":
            embedded = EmbeddedKafka(Path(folder))
            try:
                yield embedded
            finally:
                embedded.stop()
            return
        apache = ApacheKafka(Path(folder))
        try:
            apache.start()
            yield apache
        finally:
            apache.stop()


def make_topic(
    bootstrap: str, partitions: int = 1, *, name: str = "", config: Mapping[str, str] | None = None
) -> str:
    """Make a topic and wait until every partition has a leader; its name, a new one where none is given."""
    name = name or f"t-{secrets.token_hex(5)}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
    admin.create_topics([topic], operation_timeout=20)[name].result(30)

    def complete() -> bool:
        found = admin.list_topics(name, timeout=20).topics[name]
        leaders = [part for part in found.partitions.values() if part.leader >= 0 and part.error is None]
        return found.error is None and len(leaders) == partitions

    _until(complete, f"topic {name} with {partitions} partitions")
    return name


def _until(happened: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(_POLL_SECONDS)
