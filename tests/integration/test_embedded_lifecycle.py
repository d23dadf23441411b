"""The embedded PostgreSQL in ordinary life: started, shared, stopped; as root and as an ordinary user."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from embedded_people import Person, Refused, anyone, kill_process, ordinary_only, until, until_gone

from assay.adapters.embedded.locks import held_exclusively
from assay.adapters.embedded.postmaster import read_postmaster
from assay.adapters.embedded.processes import Life, life_of

__all__ = ["anyone"]

# The tests of this file share a server and build on one another: it goes to one worker (--dist loadfile).
pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def project(anyone: Person) -> Iterator[Path]:
    """One project, set up once; every test may find its server running or stopped."""
    folder = anyone.project()
    yield folder
    with anyone.client(folder) as client:
        client.ask("remove")


def starts(log: Path) -> int:
    return log.read_text().count("ready to accept connections")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_first_start_sets_up_a_private_server(anyone: Person, project: Path) -> None:
    with anyone.client(project) as client:
        url = client.ask("acquire")
        facts = client.ask(
            "query",
            """SELECT current_setting('server_encoding'), current_setting('data_checksums'),
                      current_setting('timezone'), current_setting('fsync'), current_user::text,
                      current_database()::text, current_setting('listen_addresses'),
                      current_setting('unix_socket_directories')""",
        )
        assert facts == [["UTF8", "on", "UTC", "on", "assay", "assay", "127.0.0.1", ""]]
        rules = client.ask("query", "SELECT DISTINCT auth_method FROM pg_hba_file_rules")
        assert rules == [["scram-sha-256"]]
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url.replace(":assay@", "").replace("assay:", "assay:x"), connect_timeout=5)
        status = client.ask("status")
        assert status["running"]
        assert status["clients_held"]
        assert Path(f"/proc/{status['pid']}").stat().st_uid == anyone.server_uid != 0
    assert "Setting up the embedded database (first run)" in client.progress


def test_files_are_closed_to_others_and_parents_untouched(anyone: Person, project: Path) -> None:
    places = anyone.places(project)
    assert mode(project) == 0o700
    assert mode(project / ".assay") == 0o700
    assert mode(places.data) == 0o700
    assert mode(places.folder) == (0o711 if anyone.uid == 0 else 0o700)
    for path in (places.password, places.state, places.log, places.start_lock, places.clients_lock):
        assert mode(path) == 0o600, path
        assert path.stat().st_uid == anyone.uid
    assert list(places.folder.glob("data.new-*")) == []


def test_four_commands_at_once_start_one_server(anyone: Person, project: Path) -> None:
    with anyone.client(project) as client:
        client.ask("stop", True)
    before = starts(anyone.places(project).log)
    with ExitStack() as stack:
        clients = [stack.enter_context(anyone.client(project)) for _ in range(4)]
        for client in clients:
            client.tell("acquire")
        assert len({client.hear() for client in clients}) == 1
        assert len({client.ask("status")["pid"] for client in clients}) == 1
    assert starts(anyone.places(project).log) == before + 1


def test_four_commands_at_once_set_up_one_cluster(anyone: Person) -> None:
    folder = anyone.project()
    with ExitStack() as stack:
        clients = [stack.enter_context(anyone.client(folder)) for _ in range(4)]
        for client in clients:
            client.tell("acquire")
        assert len({client.hear() for client in clients}) == 1
        clients[0].ask("remove")
    assert not any((anyone.base / "home" / "projects").glob(f"{folder.name}*"))


def test_the_server_outlives_its_starter_while_another_uses_it(anyone: Person, project: Path) -> None:
    with anyone.client(project) as second:
        with anyone.client(project) as starter:
            starter.ask("acquire")
            pid = second.ask("status")["pid"]
            second.ask("acquire")
            starter.kill()
        graces_later = time.monotonic() + 1.0
        while time.monotonic() < graces_later:
            assert second.ask("query", "SELECT 1") == [[1]]
        assert second.ask("status")["pid"] == pid
        second.kill()
    with anyone.client(project) as third:
        until(lambda: third.ask("status")["phase"] == "stopped", "the end of a server that nobody uses")


@ordinary_only
def test_several_leases_in_one_process(anyone: Person, project: Path) -> None:
    with anyone.client(project) as client:
        assert client.ask("acquire") == client.ask("acquire")
        client.ask("release")
        assert client.ask("status")["clients_held"]
        assert client.ask("query", "SELECT 1") == [[1]]
        client.ask("release")
        assert not client.ask("status")["clients_held"]
        until(lambda: not client.ask("status")["running"], "the end of an unused server")


def test_no_descriptor_and_no_variable_of_the_client_reaches_the_server(
    anyone: Person, project: Path
) -> None:
    strange = {
        "PGPORT": "1",
        "PGHOSTADDR": "192.0.2.1",
        "PGSSLMODE": "require",
        "PGDATA": "/nowhere",
        "ASSAY_KEY": "a secret",
        "LD_PRELOAD": "",
    }
    with anyone.client(project) as client:
        client.ask("stop", True)
    with anyone.client(project, environment=strange) as client:
        client.ask("acquire")
        assert client.ask("query", "SELECT 1") == [[1]]
        status = client.ask("status")
        places = anyone.places(project)
        server = open_files(status["pid"])
        assert places.server_lock in server, "the control: this one is handed over on purpose"
        assert not server & {places.clients_lock, places.start_lock, places.supervisor_lock}
        supervisor = open_files(status["supervisor_pid"])
        assert places.supervisor_lock in supervisor
        assert not supervisor & {places.clients_lock, places.start_lock, places.server_lock}
        for pid in (status["pid"], status["supervisor_pid"]):
            names = {part.split(b"=")[0] for part in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")}
            assert not names & {name.encode() for name in strange}
            assert b"PATH" in names


def open_files(pid: int) -> set[Path]:
    return {entry.readlink() for entry in Path(f"/proc/{pid}/fd").iterdir()}


@ordinary_only
def test_a_lock_that_a_child_inherits_keeps_the_server(anyone: Person, project: Path) -> None:
    """The control of the test above: a lease that leaked into another program is never given back."""
    with anyone.client(project) as client, anyone.client(project) as watcher:
        client.ask("acquire")
        child = client.ask("leak_lease")
        client.kill()
        graces_later = time.monotonic() + 1.0
        while time.monotonic() < graces_later:
            assert watcher.ask("status")["clients_held"]
            assert watcher.ask("status")["running"]
        kill_process(child)
        until(lambda: not watcher.ask("status")["running"], "the end of an unused server")


@ordinary_only
def test_stop_refuses_while_the_server_is_used(anyone: Person, project: Path) -> None:
    with anyone.client(project) as user, anyone.client(project) as other:
        user.ask("acquire")
        with pytest.raises(Refused, match="in use by an assay command"):
            other.ask("stop")
        assert user.ask("query", "SELECT 1") == [[1]]
        assert other.ask("stop", True) is True
        status = other.ask("status")
        assert (status["running"], status["phase"], status["pid"]) == (False, "stopped", None)
        assert other.ask("stop") is False
        assert not held_exclusively(anyone.places(project).supervisor_lock)


@ordinary_only
def test_a_port_taken_meanwhile_is_given_up(anyone: Person, project: Path) -> None:
    with anyone.client(project) as client:
        client.ask("acquire")
        port = client.ask("status")["port"]
        client.ask("stop", True)
        client.ask("release")
        client.ask("acquire")
        assert client.ask("status")["port"] == port, "the control: a free port is kept"
        client.ask("stop", True)
        client.ask("release")
        with socket.create_server(("127.0.0.1", port)):
            client.ask("acquire")
            assert client.ask("status")["port"] != port
            assert client.ask("query", "SELECT 1") == [[1]]


@ordinary_only
def test_a_stopped_process_is_named_not_waited_for(anyone: Person, project: Path) -> None:
    with anyone.client(project) as user, anyone.client(project, connect_timeout=2) as other:
        user.ask("acquire")
        pid = user.ask("status")["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(Refused, match=f"kill -CONT {pid}"):
                other.ask("acquire")
        finally:
            os.kill(pid, signal.SIGCONT)
        other.ask("acquire")
        assert other.ask("query", "SELECT 1") == [[1]]


@ordinary_only
def test_a_stopped_process_can_be_stopped_for_good(anyone: Person, project: Path) -> None:
    with anyone.client(project) as client:
        client.ask("acquire")
        pid = client.ask("status")["pid"]
        os.kill(pid, signal.SIGSTOP)
        until(lambda: life_of(pid) is Life.STOPPED, "the server to be stopped")
        assert client.ask("stop", True) is True
        assert read_postmaster(anyone.places(project).data) is None, "it was shut down in order"


def test_a_project_removed_under_its_server_ends_it(anyone: Person) -> None:
    folder = anyone.project()
    with anyone.client(folder) as client:
        client.ask("acquire")
        status = client.ask("status")
        places = anyone.places(folder)
        remove = ["rm", "-rf", str(places.folder), str(folder)]
        until(lambda: subprocess.run(remove, check=False).returncode == 0, "the end of the folders")
        for pid in (status["pid"], status["supervisor_pid"]):
            until_gone(pid)


def test_a_new_project_at_an_old_path_gets_a_new_database(anyone: Person) -> None:
    folder = anyone.project()
    with anyone.client(folder) as client:
        client.ask("acquire")
        client.ask("query", "CREATE TABLE old (n int)")
        client.ask("stop", True)
        client.ask("release")
        client.ask("acquire")
        assert client.ask("query", "SELECT count(*) FROM old") == [[0]], "the control: it was kept"
        client.ask("stop", True)
        client.ask("release")
        shutil.rmtree(folder / ".assay")
        client.ask("acquire")
        assert client.ask("query", "SELECT to_regclass('old')") == [[None]]
        client.ask("remove")
