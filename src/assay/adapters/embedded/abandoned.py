"""Databases outside of projects whose project is gone: nothing will ever find them again, so they may go.

Only servers under `/var/lib/assay` or `ASSAY_SERVER_HOME` can be abandoned; an ordinary user's database is
deleted with its project.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from assay.adapters.embedded.home import project_of, read_token, server_home
from assay.adapters.embedded.locks import held_at_all, held_exclusively
from assay.adapters.embedded.state import Places


@dataclass(frozen=True, slots=True)
class AbandonedDatabase:
    """A database that no project refers to. `project` is where its project was."""

    project: Path
    folder: Path

    def remove(self) -> None:
        """Delete it for good."""
        shutil.rmtree(self.folder)


def abandoned_databases() -> tuple[AbandonedDatabase, ...]:
    """Those that do not run and whose project is gone, or has another database by now.

    A project on a disk that is not mounted looks gone as well: show the list before anything is removed.
    """
    home = server_home()
    if home is None or not (home / "projects").is_dir():
        return ()
    found = []
    for folder in sorted((home / "projects").iterdir()):
        project = project_of(folder)
        if project is not None and not _in_use(Places(folder)) and read_token(project) != _token(folder):
            found.append(AbandonedDatabase(project, folder))
    return tuple(found)


def _token(folder: Path) -> str:
    return folder.name.rpartition("-")[2]


def _in_use(places: Places) -> bool:
    exclusive = (places.start_lock, places.supervisor_lock, places.server_lock)
    return held_at_all(places.clients_lock) or any(held_exclusively(lock) for lock in exclusive)
