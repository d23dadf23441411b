"""The embedded PostgreSQL after SIGKILL of anything, at any moment; as root and as an ordinary user."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from embedded_people import PEOPLE, Client, Person, anyone, kill_process, ordinary_only, until, until_gone

from assay.adapters.embedded.locks import held_exclusively
from assay.adapters.embedded.postmaster import read_postmaster
from assay.adapters.embedded.processes import Life, life_of
from assay.adapters.embedded.state import Phase, read_state

__all__ = ["anyone"]

# The tests of this file share a server and build on one another: it goes to one worker (--dist loadfile).
pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def project(anyone: Person) -> Iterator[Path]:
    """One project, set up once, with a table that every kill must leave as it was."""
    folder = anyone.project()
    with anyone.client(folder) as client:
        client.ask("acquire")
        client.ask("query", "CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n")
    yield folder
    with anyone.client(folder) as client:
        client.ask("remove")


@pytest.fixture
def client(anyone: Person, project: Path) -> Iterator[Client]:
    """A client that does not hold a lease yet."""
    with anyone.client(project) as found:
        yield found


def killing(*victims: str) -> pytest.MarkDecorator:
    """Each victim with an ordinary user; as root the last one."""
    cases = [(name, victim) for name in PEOPLE for victim in victims[-1 if name == "root" else 0 :]]
    return pytest.mark.parametrize(("anyone", "victim"), cases, indirect=["anyone"])


def all_kept(client: Client) -> bool:
    return bool(client.ask("query", "SELECT count(*) FROM kept") == [[1000]])


def processes() -> list[tuple[int, str]]:
    """Process ids and command lines of everything that runs."""
    listing = subprocess.run(["ps", "-axww", "-o", "pid=,args="], check=True, capture_output=True, text=True)
    found = (line.strip().partition(" ") for line in listing.stdout.splitlines())
    return [(int(pid), args) for pid, _, args in found]


def running(*words: str) -> list[int]:
    """Processes whose command line holds all these words."""
    return [pid for pid, args in processes() if all(word in args for word in words)]


def killed(pids: list[int]) -> None:
    for pid in pids:
        if life_of(pid) is not Life.GONE:
            os.kill(pid, 9)
    for pid in pids:
        until_gone(pid)


def test_supervisor_killed_the_server_goes_on_and_is_adopted(client: Client) -> None:
    client.ask("acquire")
    before = client.ask("status")
    kill_process(before["supervisor_pid"])
    assert client.ask("status")["supervisor_pid"] is None
    assert all_kept(client)
    client.ask("acquire")
    after = client.ask("status")
    assert after["pid"] == before["pid"]
    assert after["supervisor_pid"] not in {None, before["supervisor_pid"]}


def test_an_adopted_server_stops_when_nobody_uses_it(anyone: Person, project: Path) -> None:
    with anyone.client(project) as first, anyone.client(project) as second:
        first.ask("stop", True)
        second.ask("acquire")
        before = second.ask("status")
        kill_process(before["supervisor_pid"])
        second.ask("acquire")
        second.kill()
        until(lambda: not first.ask("status")["running"], "the end of an adopted server")
        assert read_postmaster(anyone.places(project).data) is None, "it was shut down in order"


@ordinary_only
def test_an_unsupervised_server_can_be_stopped(client: Client) -> None:
    client.ask("acquire")
    kill_process(client.ask("status")["supervisor_pid"])
    assert client.ask("stop", True) is True
    assert not client.ask("status")["running"]


def test_postmaster_killed_the_supervisor_starts_it_again(client: Client) -> None:
    client.ask("acquire")
    before = client.ask("status")
    kill_process(before["pid"])
    until(lambda: client.ask("status")["pid"] not in {None, before["pid"]}, "another server")
    until(lambda: client.ask("status")["phase"] == "ready", "a ready server")
    assert client.ask("status")["supervisor_pid"] == before["supervisor_pid"]
    assert all_kept(client), "at the old URL: the port was kept"


def test_everything_killed_the_next_lease_recovers(anyone: Person, project: Path) -> None:
    with anyone.client(project) as victim, anyone.client(project) as other:
        victim.ask("acquire")
        victim.ask("query", "CREATE TABLE IF NOT EXISTS late (n int)")
        victim.ask("query", "INSERT INTO late VALUES (1)")
        status = victim.ask("status")
        log = anyone.places(project).log
        recoveries = log.read_text().count("automatic recovery in progress")
        kill_process(status["supervisor_pid"])
        kill_process(status["pid"])
        victim.kill()
        assert read_postmaster(anyone.places(project).data) is not None, "the control: it was left behind"
        other.ask("acquire")
        assert all_kept(other)
        assert other.ask("query", "SELECT count(*) > 0 FROM late") == [[True]]
        assert log.read_text().count("automatic recovery in progress") == recoveries + 1


@ordinary_only
def test_a_busy_backend_of_a_killed_server_is_ended(anyone: Person, project: Path, client: Client) -> None:
    """It works without looking up, so it does not notice the postmaster's end by itself."""
    client.ask("acquire")
    status = client.ask("status")
    client.ask("spin")
    busy = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'DO%'"
    until(lambda: bool(client.ask("query", busy) == [[1]]), "the busy backend")
    kill_process(status["supervisor_pid"])
    kill_process(status["pid"])
    assert held_exclusively(anyone.places(project).server_lock), "the control: it is still there"
    client.ask("acquire")
    assert all_kept(client)
    client.ask("children_ended")


class Gate:
    """A `postgres` that waits at a gate before it is one: a start, or a recovery, that takes its time."""

    def __init__(self, folder: Path, postgres: Path) -> None:
        folder.mkdir()
        folder.chmod(0o755)
        self._open = folder / "open"
        self._program = folder / "postgres"
        self._program.write_text(
            f"#!/bin/sh\ncase $1 in -D) until test -e {self._open}; do sleep 0.02; done;; esac\n"
            f'exec {postgres} "$@"\n'
        )
        self._program.chmod(0o755)
        (folder / "initdb").symlink_to(postgres.with_name("initdb"))
        self.environment = {"ASSAY_PG_BIN": str(folder)}

    def waiting(self) -> list[int]:
        """Process ids at the gate."""
        return running("/bin/sh", str(self._program), "-D")

    def open(self) -> None:
        self._open.touch()


@pytest.fixture
def gate(anyone: Person, project: Path, tmp_path: Path) -> Iterator[Gate]:
    """A closed gate, for a server that is stopped; open at the end."""
    with anyone.client(project) as client:
        client.ask("acquire")
        pid = client.ask("status")["pid"]
        postgres = next(args.split()[0] for number, args in processes() if number == pid)
        client.ask("stop", True)
    found = Gate(anyone.base / f"gate-{tmp_path.name}", Path(postgres))
    yield found
    found.open()


@ordinary_only
def test_a_stop_in_the_recovery_from_a_killed_backend(client: Client) -> None:
    """PostgreSQL 18 would hang for ever between this recovery and a fast shutdown."""
    client.ask("acquire")
    with psycopg.connect(client.ask("acquire"), autocommit=True) as connection:
        pid = client.ask("status")["pid"]
        kill_process(connection.info.backend_pid)
        assert client.ask("stop", True) is True
        assert life_of(pid) in {Life.GONE, Life.ZOMBIE}
    client.ask("acquire")
    assert all_kept(client)


@ordinary_only
def test_a_recovery_may_take_longer_than_a_connection(anyone: Person, project: Path, gate: Gate) -> None:
    """The lease waits with it, whatever the connect timeout."""
    with anyone.client(project, connect_timeout=1, environment=gate.environment) as client:
        client.tell("acquire")
        client.hear_progress("Starting the embedded database")
        assert not client.says_something_within(2.5)
        assert len(gate.waiting()) == 1
        gate.open()
        client.hear()
        assert all_kept(client)


@killing("starter", "supervisor", "initdb", "everything")
def test_killed_while_the_cluster_is_made(anyone: Person, victim: str) -> None:
    folder = anyone.project()
    with anyone.client(folder) as starter, anyone.client(folder) as other:
        starter.tell("acquire")
        starter.hear_progress("Setting up")
        folder_name = str(anyone.places(folder).folder)
        until(lambda: bool(running("/initdb", folder_name)), "initdb")
        assert not anyone.places(folder).data.exists()
        supervisors = running("assay.adapters.embedded.supervisor", folder_name)
        assert len(supervisors) == 1
        if victim in {"supervisor", "everything"}:
            killed(supervisors)
        if victim in {"initdb", "everything"}:
            killed(running("/initdb", folder_name))
        if victim in {"starter", "everything"}:
            starter.kill()
        other.ask("acquire")
        assert other.ask("query", "SELECT 1") == [[1]]
        assert list(anyone.places(folder).folder.glob("data.new-*")) == []
        other.ask("remove")


@killing("starter", "supervisor", "postmaster", "everything")
def test_killed_while_the_server_starts(anyone: Person, project: Path, gate: Gate, victim: str) -> None:
    places = anyone.places(project)
    with (
        anyone.client(project, environment=gate.environment) as starter,
        anyone.client(project, environment=gate.environment) as other,
    ):
        starter.tell("acquire")
        until(lambda: bool(gate.waiting()), "a server at the gate")
        (server,) = gate.waiting()
        state = read_state(places)
        assert state.phase is Phase.STARTING
        if victim in {"supervisor", "everything"}:
            kill_process(state.supervisor_pid)
        if victim in {"starter", "everything"}:
            starter.kill()
        if victim in {"postmaster", "everything"}:
            kill_process(server)
        gate.open()
        other.ask("acquire")
        assert all_kept(other)
        assert (other.ask("status")["pid"] == server) == (victim in {"starter", "supervisor"})


@ordinary_only
def test_a_zombie_or_a_stranger_with_the_old_number_is_no_server(client: Client, anyone: Person) -> None:
    """PostgreSQL alone would refuse both as long as they have the number."""
    client.ask("acquire")
    folder = Path(client.ask("status")["data_dir"])
    client.ask("stop", True)
    left_behind = client.ask("status")
    assert not left_behind["running"]
    zombie = client.ask("zombie")
    until(lambda: life_of(zombie) is Life.ZOMBIE, "a zombie")
    for pid in (zombie, client.process.pid):
        text = f"{pid}\n{folder}\n1700000000\n{5432}\n\n127.0.0.1\n 123 456\nready\n"
        (folder / "postmaster.pid").write_text(text)
        os.chown(folder / "postmaster.pid", anyone.server_uid, -1)
        assert not client.ask("status")["running"]
        client.ask("acquire")
        assert all_kept(client)
        client.ask("stop", True)


@ordinary_only
def test_a_copied_project_has_a_server_of_its_own(anyone: Person, project: Path) -> None:
    """The copy carries a `postmaster.pid` whose process lives, for another folder."""
    copy = anyone.project()
    with anyone.client(project) as client, anyone.client(copy) as other:
        client.ask("acquire")
        subprocess.run(["cp", "-a", str(project / ".assay"), str(copy)], check=True)
        other.ask("acquire")
        first, second = client.ask("status"), other.ask("status")
        assert first["pid"] != second["pid"]
        assert first["port"] != second["port"]
        other.ask("query", "CREATE TABLE only_here (n int)")
        assert client.ask("query", "SELECT to_regclass('only_here')") == [[None]]
        other.ask("remove")
        assert all_kept(client)


def test_locks_are_free_after_all_this(anyone: Person, project: Path, client: Client) -> None:
    client.ask("stop", True)
    places = anyone.places(project)
    locks: list[Any] = [places.start_lock, places.server_lock, places.supervisor_lock]
    assert not any(held_exclusively(lock) for lock in locks)
