"""`assay up` by an ordinary user, in a folder that nobody else may enter."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from embedded_people import Person, anyone, ordinary_only

from assay.adapters.embedded.processes import Life, life_of
from assay.starter import starter_files

__all__ = ["anyone"]

_MAIN = "from assay.cli.main import main; main()"


def done(person: Person, folder: Path, *arguments: str) -> str:
    other = person.uid != os.geteuid()
    ended = subprocess.run(
        [str(person.python), "-c", _MAIN, *arguments], cwd=folder, text=True, capture_output=True,
        check=False, timeout=120, env={**person.environment, "HOME": str(folder)},
        user=person.uid if other else None, group=person.gid if other else None,
        extra_groups=[] if other else None,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@ordinary_only
def test_an_ordinary_user_brings_all_of_it_up_and_down(anyone: Person) -> None:
    folder = anyone.project()
    for name, text in starter_files().items():
        (folder / name).write_text(text)
        os.chown(folder / name, anyone.uid, anyone.gid)
    found = json.loads(done(anyone, folder, "up", "tickets.py", "--json"))
    pids = [each["pid"] for each in found["processes"]]
    assert found["sound"] is True
    assert {Path(f"/proc/{pid}").stat().st_uid for pid in pids} == {anyone.uid}
    logs = folder / ".assay" / "up"
    assert (logs.stat().st_uid, logs.stat().st_mode & 0o077) == (anyone.uid, 0)
    assert "worker: ended" in done(anyone, folder, "down")
    assert {life_of(pid) for pid in pids} <= {Life.GONE, Life.ZOMBIE}
