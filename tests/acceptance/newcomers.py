"""People who meet the product for the first time: root, and an ordinary user made for the test, each with a
clone in a folder that nobody else may enter."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
IS_ROOT: Final = os.geteuid() == 0
PEOPLE: Final = ("root", "ordinary") if IS_ROOT else ("ordinary",)


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A person, their clone, and the environment of a shell of theirs."""

    uid: int
    gid: int
    clone: Path
    environment: Mapping[str, str]

    @contextmanager
    def started(self, *command: str) -> Iterator[subprocess.Popen[str]]:
        """A command in the clone; it and its descendants are killed when the block ends before them."""
        other = self.uid != os.geteuid()
        process = subprocess.Popen(
            command, cwd=self.clone, env=dict(self.environment), text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, user=self.uid if other else None, group=self.gid if other else None,
            extra_groups=[] if other else None,
        )  # fmt: skip
        with process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    for pid in reversed(family(process.pid)):
                        with suppress(ProcessLookupError):  # it may end by itself meanwhile
                            os.kill(pid, signal.SIGKILL)

    def finished(self, *command: str, timeout: float = 180) -> tuple[int, str]:
        """Run a command in the clone to its end: exit code and what it printed."""
        with self.started(*command) as process:
            printed, _ = process.communicate(timeout=timeout)
        return process.returncode, printed


def family(pid: int) -> list[int]:
    """A process and its descendants, parents first."""
    found = [pid]
    for each in found:
        try:
            found += map(int, Path(f"/proc/{each}/task/{each}/children").read_text("ascii").split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def command_line(pid: int) -> str:
    """Empty for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


@contextmanager
def newcomer(name: str) -> Iterator[Newcomer]:
    """`root`, or an `ordinary` user: the one who runs the tests, or one made by root."""
    base = Path(tempfile.mkdtemp(prefix="assay-newcomer-"))
    base.chmod(0o755)
    try:
        if name == "root" or not IS_ROOT:
            yield _arrived(os.geteuid(), os.getegid(), base, Path(sys.base_prefix))
        else:
            with _new_user() as user:
                yield _arrived(user.pw_uid, user.pw_gid, base, _reachable_python(user, base))
    finally:
        shutil.rmtree(base, ignore_errors=True)  # a process killed last may still write there


def _arrived(uid: int, gid: int, base: Path, python_home: Path) -> Newcomer:
    clone = Path(tempfile.mkdtemp(dir=base))
    home = base / "home"
    home.mkdir()
    for file in _tracked_files():
        target = clone / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, target)
    if uid != os.geteuid():
        for path in (home, clone, *clone.rglob("*")):
            os.chown(path, uid, gid)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # What leads pip to its index is the machine's; nothing else of this process is theirs.
    machine = {key: value for key, value in os.environ.items() if _of_the_machine(key)}
    own = {
        "HOME": str(home), "PATH": os.defpath, "PYTHON": str(python_home / "bin" / version),
        "LD_LIBRARY_PATH": str(python_home / "lib"), "ASSAY_ONLY_LOOPBACK": "1",
        "PIP_CACHE_DIR": str(home / "pip"), "LC_MESSAGES": "C",
    }  # fmt: skip
    if uid == 0:
        # Root's servers live outside of projects: in a place that goes away with the test.
        own["ASSAY_SERVER_HOME"] = str(base / "servers")
    return Newcomer(uid, gid, clone, machine | own)


def _of_the_machine(key: str) -> bool:
    return key.startswith("PIP_") or key.upper().endswith(("_PROXY", "SSL_CERT_FILE")) or key == "LANG"


def _tracked_files() -> list[str]:
    """What git tracks or would track, as paths in the repository."""
    listing = "import sys, tracked_files as t; [print(p) for p in t.tracked_files(t.Path(sys.argv[1]))]"
    listed = subprocess.run(
        [sys.executable, "-c", listing, str(ROOT)], cwd=ROOT / "tools", check=True, capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    return [str(Path(path).relative_to(ROOT)) for path in listed.stdout.splitlines()]


@contextmanager
def _new_user() -> Iterator[pwd.struct_passwd]:
    name = f"assay-n{os.getpid()}"
    subprocess.run(["useradd", "--no-create-home", name], check=True, capture_output=True, timeout=60)
    try:
        yield pwd.getpwnam(name)
    finally:
        subprocess.run(["userdel", "--force", name], check=True, capture_output=True, timeout=60)


def _reachable_python(user: pwd.struct_passwd, base: Path) -> Path:
    """Where this Python is, or a copy of it, by hard links where possible, if it is closed to the user."""
    home = Path(sys.base_prefix)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    look = "import os, sys; os.setuid(int(sys.argv[1])); os.stat(sys.base_prefix + '/lib')"
    tried = subprocess.run(
        [sys.executable, "-c", look, str(user.pw_uid)], check=False, capture_output=True, timeout=60
    )
    if tried.returncode == 0:
        return home
    copy = base / "python"
    left_out = shutil.ignore_patterns("site-packages", "test", "config-*", "*.a", "__pycache__")
    _copy_tree(home / "lib" / version, copy / "lib" / version, left_out)
    for library in (home / "lib").glob("libpython*"):
        _link(str(library), str(copy / "lib" / library.name))
    (copy / "bin").mkdir()
    _link(str((home / "bin" / version).resolve()), str(copy / "bin" / version))
    return copy


def _copy_tree(source: Path, target: Path, left_out: Any) -> None:
    shutil.copytree(source, target, ignore=left_out, copy_function=_link, symlinks=True)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
