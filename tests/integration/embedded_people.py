"""Real users and real client processes for the tests of the embedded PostgreSQL.

As root the tests run as root and as an ordinary user made for them; else as the user who runs them.
A client is a process that does what it is told over a pipe, so that a test can kill it at any moment.
"""

from __future__ import annotations

import json
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

import assay
from assay.adapters.embedded.processes import Life, life_of
from assay.adapters.embedded.state import Places

IS_ROOT = os.geteuid() == 0
PEOPLE = ("root", "ordinary") if IS_ROOT else ("ordinary",)
# For what does not depend on who runs the server. The rest is tried with everyone.
ordinary_only = pytest.mark.parametrize("anyone", ["ordinary"], indirect=True)

_CLIENT = """
import dataclasses, json, os, resource, subprocess, sys
from pathlib import Path
import psycopg
from assay.adapters.embedded import EmbeddedServer, ServerSettings, abandoned_databases
from assay.domain.failures import AssayError

def say(**values):
    print(json.dumps(values, default=str), flush=True)

project, settings = json.loads(sys.argv[1])
server = EmbeddedServer(
    Path(project), settings=ServerSettings(**settings), progress=lambda text: say(progress=text)
)
leases = []
children = []

def acquire():
    leases.append(server.acquire())
    return leases[-1].url

def release():
    leases.pop().release()

def status():
    return dataclasses.asdict(server.status())

def query(text):
    with psycopg.connect(leases[-1].url, autocommit=True) as connection:
        cursor = connection.execute(text)
        return cursor.fetchall() if cursor.description else None

def spin():
    run = "DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$"
    code = f"import psycopg, sys; psycopg.connect(sys.argv[1]).execute({run!r})"
    children.append(subprocess.Popen([sys.executable, "-c", code, leases[-1].url], stderr=subprocess.DEVNULL))

def children_ended():
    return [child.wait(30) for child in children]

def stop(force=False):
    return server.stop(30, force=force)

def abandoned(remove=False):
    found = abandoned_databases()
    for database in found if remove else ():
        database.remove()
    return [str(database.project) for database in found]

def remove():
    server.remove()

def limit_files(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

def unlimit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

def zombie():
    children.append(subprocess.Popen(["true"]))
    return children[-1].pid

def leak_lease():
    descriptor = leases[-1]._lock.fileno()
    children.append(subprocess.Popen(["sleep", "60"], pass_fds=[descriptor]))
    return children[-1].pid

say(ready=os.getpid())
for line in sys.stdin:
    verb, *rest = json.loads(line)
    try:
        say(value=globals()[verb](*rest))
    except AssayError as error:
        say(error=str(error), kind=type(error).__name__)
"""


class Refused(Exception):
    """The AssayError that a client met: its sentence, and its class."""

    def __init__(self, sentence: str, kind: str) -> None:
        super().__init__(sentence)
        self.kind = kind


@dataclass
class Client:
    """A process of some person with one EmbeddedServer."""

    process: subprocess.Popen[str]
    person: Person
    progress: list[str] = field(default_factory=list)

    def tell(self, verb: str, *rest: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([verb, *rest]) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        """The next answer; progress messages before it are kept."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            if "progress" in said:
                self.progress.append(said["progress"])
            elif "error" in said:
                raise Refused(said["error"], said["kind"])
            else:
                return said.get("value")
        raise AssertionError(f"the client ended with status {self.process.wait()}")

    def hear_progress(self, beginning: str) -> None:
        """Wait for a progress message that begins so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            text = json.loads(line).get("progress", "")
            self.progress.append(text)
            if text.startswith(beginning):
                return
        raise AssertionError(f"the client ended with status {self.process.wait()}")

    def says_something_within(self, seconds: float) -> bool:
        """Whether another line arrives in time."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def ask(self, verb: str, *rest: object) -> Any:
        self.tell(verb, *rest)
        return self.hear()

    def kill(self) -> None:
        """SIGKILL, seen to have worked."""
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait(30) == -9
        self.close()

    def close(self) -> None:
        """End it in an orderly way if it still runs."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


@dataclass(frozen=True)
class Person:
    """A user, the Python that this user can run, and a folder of their own."""

    name: str
    uid: int
    gid: int
    python: Path
    environment: Mapping[str, str]
    base: Path

    @property
    def server_uid(self) -> int:
        """Who the server runs as."""
        return pwd.getpwnam("assay").pw_uid if self.uid == 0 else self.uid

    def project(self) -> Path:
        """A new project folder that nobody else may enter, as `mktemp -d` makes it."""
        folder = Path(tempfile.mkdtemp(dir=self.base))
        os.chown(folder, self.uid, self.gid)
        return folder

    def places(self, project: Path) -> Places:
        """Where the server of `project` keeps its state."""
        if self.uid != 0:
            return Places(project / ".assay" / "postgres")
        token = (project / ".assay" / "server-token").read_text().strip()
        (folder,) = (self.base / "home" / "projects").glob(f"*-{token}")
        return Places(folder)

    @contextmanager
    def client(
        self, project: Path, *, environment: Mapping[str, str] | None = None, **settings: object
    ) -> Iterator[Client]:
        """A running client; settings are those of ServerSettings, with an idle grace of 0.3 seconds."""
        chosen = json.dumps([str(project), {"idle_grace": 0.3, **settings}])
        other = self.uid != os.geteuid()
        process = subprocess.Popen(
            [str(self.python), "-c", _CLIENT, chosen],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env={**self.environment, **(environment or {})},
            user=self.uid if other else None,
            group=self.gid if other else None,
            extra_groups=[] if other else None,
        )
        client = Client(process, self)
        client.hear()
        try:
            yield client
        finally:
            client.close()


def until(happened: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Poll until something happened; fail with `what` when it has not in time."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)


def until_gone(pid: int) -> None:
    """Wait for the end of a process that is not our child."""
    until(lambda: life_of(pid) in {Life.GONE, Life.ZOMBIE}, f"the end of process {pid}")


def kill_process(pid: int) -> None:
    """SIGKILL a process that is not our child, and see it gone."""
    assert life_of(pid) in {Life.ALIVE, Life.STOPPED}
    os.kill(pid, signal.SIGKILL)
    until_gone(pid)


def scalar(url: str, query: str) -> Any:
    """The first value of a query's first row."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    return None if row is None else row[0]


@contextmanager
def person(name: str) -> Iterator[Person]:
    """`root`, or an `ordinary` user: the one who runs the tests, or one made for them by root."""
    base = Path(tempfile.mkdtemp(prefix="assay-embedded-"))
    try:
        if name == "root":
            base.chmod(0o755)
            environment = {**_environment(), "ASSAY_SERVER_HOME": str(base / "home")}
            yield Person(name, 0, 0, Path(sys.executable), environment, base)
        elif not IS_ROOT:
            yield Person(name, os.geteuid(), os.getegid(), Path(sys.executable), _environment(), base)
        else:
            with _new_user() as user:
                os.chown(base, user.pw_uid, user.pw_gid)
                python, environment = _reachable_python(base)
                yield Person(name, user.pw_uid, user.pw_gid, python, environment, base)
    finally:
        shutil.rmtree(base, ignore_errors=True)  # a process killed last may still write there


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "PYTHONPATH": str(Path(assay.__file__).parents[1])}


@contextmanager
def _new_user() -> Iterator[pwd.struct_passwd]:
    name = f"assay-t{os.getpid()}"
    subprocess.run(["useradd", "--no-create-home", name], check=True, capture_output=True)
    try:
        yield pwd.getpwnam(name)
    finally:
        subprocess.run(["userdel", "--force", name], check=True, capture_output=True)


def _reachable_python(base: Path) -> tuple[Path, dict[str, str]]:
    """A copy, by hard links where possible, of this Python and what is installed: root's may be closed."""
    home = Path(sys.base_prefix)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    copy = base / "python"
    left_out = shutil.ignore_patterns("site-packages", "test", "config-*", "*.a")
    _link_tree(home / "lib" / version, copy / "lib" / version, left_out)
    for library in (home / "lib").glob("libpython*"):
        _link(str(library), str(copy / "lib" / library.name))
    (copy / "bin").mkdir()
    _link(str((home / "bin" / version).resolve()), str(copy / "bin" / version))
    packages = Path(psycopg.__file__).parents[1]
    _link_tree(packages, base / "packages", shutil.ignore_patterns("mypy*", "pip*"))
    _link_tree(Path(assay.__file__).parent, base / "packages" / "assay", None)
    environment = {
        "PATH": os.defpath,
        "LD_LIBRARY_PATH": str(copy / "lib"),
        "PYTHONHOME": str(copy),
        "PYTHONPATH": str(base / "packages"),
    }
    return copy / "bin" / version, environment


def _link_tree(source: Path, target: Path, left_out: Callable[[Any, list[str]], set[str]] | None) -> None:
    shutil.copytree(source, target, ignore=left_out, copy_function=_link, symlinks=True, dirs_exist_ok=True)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture(scope="module", params=PEOPLE)
def anyone(request: pytest.FixtureRequest) -> Iterator[Person]:
    """Each person in turn."""
    with person(request.param) as found:
        yield found
