"""An Apache Kafka server in KRaft mode, of one node, on this machine alone, for tests.

Its jars are those that tools/apache-kafka/prepare.sh puts into .kafka/jars; its data lie in a folder of the
caller's. Ports and data stay over a restart, so a kill can be followed by a start of the same server.
"""

from __future__ import annotations

import base64
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from assay.adapters.embedded.broker_probe import BrokerAnswer, ask_broker
from assay.adapters.embedded.launch import any_free_port

JARS = Path(__file__).parents[2] / ".kafka" / "jars"

_START_SECONDS, _STOP_SECONDS = 90.0, 60.0
_POLL_SECONDS = 0.02
_STARTED = "Kafka Server started"
_VERSION = re.compile(r"Kafka version: (\S+)")
_LOG_LEVELS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.utils=info",
)
# One node, few threads, small buffers; groups that a test can lose a member of within seconds.
_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "1000",
    # A killed server may start again once its last life has expired: after 9 seconds by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.segment.delete.delay.ms": "0",
}


class ApacheKafka:
    """One server. `properties` are added to the server's own, `heap` is Java's -Xmx. `advertised`: a port of
    this machine that a second listener, at `proxied_port`, calls its own."""

    kind = "apache"

    def __init__(
        self, folder: Path, *, properties: Mapping[str, str] | None = None, heap: str = "384m",
        advertised: int | None = None,
    ) -> None:  # fmt: skip
        if shutil.which("java") is None or not JARS.is_dir():
            raise AssertionError(
                "Apache Kafka is not prepared: `make test-kafka` fetches it (needs Java, Maven)"
            )
        self._folder = folder
        self._heap = heap
        self._port, controller = any_free_port(), any_free_port()
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        folder.mkdir(parents=True, exist_ok=True)
        listeners = f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{controller}"
        own = f"PLAINTEXT://127.0.0.1:{self._port}"
        self.proxied_port = any_free_port() if advertised is not None else 0
        if advertised is not None:
            listeners += f",PROXIED://127.0.0.1:{self.proxied_port}"
            own += f",PROXIED://127.0.0.1:{advertised}"
        chosen = {
            **_PROPERTIES,
            "listeners": listeners,
            "advertised.listeners": own,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self.data),
            **(properties or {}),
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in chosen.items()), "utf-8")

    @property
    def bootstrap(self) -> str:
        """`127.0.0.1:PORT`; the same over all restarts."""
        return f"127.0.0.1:{self._port}"

    @property
    def data(self) -> Path:
        """Its logs: a folder for each partition, `TOPIC-NUMBER`."""
        return self._folder / "data"

    @property
    def log(self) -> Path:
        """What the server says, over all its lives."""
        return self._folder / "server.log"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        return self._running().pid

    def start(self) -> float:
        """Format the data folder where that was not done, start, wait; the seconds that it took."""
        began = time.monotonic()
        if not (self.data / "meta.properties").exists():
            self._format()
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            command = [*self._java(self._heap), "kafka.Kafka", str(self._properties)]
            self._process = _TiedProcess(command, log)
        deadline = began + _START_SECONDS
        while not self._is_ready():
            assert self._process.poll() is None, f"Apache Kafka ended: {self._said()[-2000:]}"
            assert time.monotonic() < deadline, f"no start within {_START_SECONDS} s: {self._said()[-2000:]}"
            time.sleep(_POLL_SECONDS)
        return time.monotonic() - began

    def stop(self) -> None:
        """Stop it in an orderly way; nothing when it does not run."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """SIGKILL, seen to have worked."""
        process = self._running()
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -9
        self._process = None

    def restart(self) -> float:
        """Start it again, on the same data and port, after a kill or instead of the running one."""
        self.stop()
        return self.start()

    def version(self) -> str:
        """The version that this server said at its start."""
        found = _VERSION.search(self._said())
        assert found is not None, "the server did not say its version"
        return found.group(1)

    def _format(self) -> None:
        command = [*self._java("128m"), "kafka.tools.StorageTool", "format", "-t", self.cluster_id]
        done = subprocess.run(
            [*command, "-c", str(self._properties)], check=False, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr[-2000:]

    def _is_ready(self) -> bool:
        """It says so, and it answers as the cluster that we formatted."""
        if _STARTED not in self._said():
            return False
        return ask_broker(self._port, self.cluster_id, 5.0) is BrokerAnswer.OURS

    def _said(self) -> str:
        """What this life of the server has said."""
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode("utf-8", "replace")

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server does not run"
        return self._process

    @property
    def _properties(self) -> Path:
        return self._folder / "server.properties"

    def _java(self, heap: str) -> list[str]:
        # The quick compiler alone and one collector thread: a start of 3 seconds on two cores.
        options = [f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        return ["java", *options, *_LOG_LEVELS, "-cp", f"{JARS}{os.sep}*"]


def jar_version() -> str:
    """The version that the server's jars give, without starting it."""
    command = ["java", "-cp", f"{JARS}{os.sep}*", "kafka.Kafka", "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.split()[0]


class _TiedProcess(subprocess.Popen[bytes]):
    """On Linux it ends with the thread that starts it: a killed test run leaves no server behind."""

    def __init__(self, command: list[str], log: IO[bytes]) -> None:
        prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

        def tie() -> None:
            if prctl is not None:
                prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

        super().__init__(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=tie,
        )
