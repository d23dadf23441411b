"""Where the embedded broker of a project keeps its state: in the same home as the embedded database."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from assay.adapters.embedded.account import owner_of
from assay.adapters.embedded.home import find_places, make_places, server_home
from assay.adapters.embedded.state import Places, write_private
from assay.domain.failures import ConfigurationError

_PRIVATE = 0o700


@dataclass(frozen=True, slots=True)
class BrokerPlaces(Places):
    """The files of one broker. The locks mean what they mean for the database; there is no data."""

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    @property
    def life(self) -> Path:
        return self.folder / "broker.json"


@dataclass(frozen=True, slots=True)
class BrokerLife:
    """One life of the broker, and of all that it holds. `cluster_id` is what it answers to clients."""

    pid: int
    port: int
    cluster_id: str


def read_life(places: BrokerPlaces) -> BrokerLife | None:
    """The life that was begun last; whether it lasts is for the server lock to say."""
    try:
        values = json.loads(places.life.read_text("utf-8"))
        return BrokerLife(int(values["pid"]), int(values["port"]), str(values["cluster_id"]))
    except (FileNotFoundError, ValueError, KeyError):
        return None


def write_life(places: BrokerPlaces, life: BrokerLife) -> None:
    """Replace the record of the last life in one step."""
    write_private(places.life, json.dumps(asdict(life)))


def find_broker(project: Path) -> BrokerPlaces | None:
    """The state of this project's broker as it is; None where nothing was made yet. Changes nothing."""
    folder = _folder(project)
    return BrokerPlaces(folder) if folder is not None and folder.is_dir() else None


def make_broker(project: Path) -> BrokerPlaces:
    """The state of this project's broker, its folder made where missing, readable by nobody else."""
    try:
        if server_home() is None:
            _make_private(project / ".assay")
        else:
            make_places(project)
        folder = _folder(project)
        if folder is None:
            raise ConfigurationError(f"{project} was removed meanwhile: make it again.")
        return BrokerPlaces(_make_private(folder))
    except OSError as error:
        place = error.filename or project
        raise ConfigurationError(
            f"The embedded broker cannot keep its files in {place} ({error.strerror}): make that folder "
            "writable, or set ASSAY_SERVER_HOME to one that is."
        ) from error


def _folder(project: Path) -> Path | None:
    """Within the database's folder where that lies outside of the project, so that the two go together."""
    if server_home() is None:
        return project / ".assay" / "broker"
    database = find_places(project)
    return None if database is None else database.folder / "broker"


def _make_private(folder: Path) -> Path:
    try:
        folder.mkdir(mode=_PRIVATE)
    except FileExistsError:
        owner = owner_of(folder)
        if owner.uid != os.geteuid():
            raise ConfigurationError(
                f"{folder} belongs to user {owner.name}: run assay as that user."
            ) from None
        return folder
    folder.chmod(_PRIVATE)  # the umask may have taken from it
    if folder.name == ".assay":
        (folder / ".gitignore").write_text("*\n", "utf-8")
    return folder
