"""What the starter tells the supervisor, as one JSON argument (it holds no secret)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from assay.adapters.embedded.binaries import Binaries
from assay.adapters.embedded.processes import Identity
from assay.adapters.embedded.settings import ServerSettings


@dataclass(frozen=True, slots=True)
class Order:
    """Run the server of `folder`. `run` names this life of the supervisor."""

    run: str
    folder: Path
    binaries: Binaries
    identity: Identity | None
    settings: ServerSettings

    def to_argument(self) -> str:
        """The order as JSON."""
        return json.dumps(
            {
                "run": self.run,
                "folder": str(self.folder),
                "bin": str(self.binaries.folder),
                "version": self.binaries.version,
                "identity": None if self.identity is None else asdict(self.identity),
                "settings": asdict(self.settings),
            }
        )

    @classmethod
    def from_argument(cls, argument: str) -> Order:
        """The order back from `to_argument`."""
        values = json.loads(argument)
        identity = values["identity"]
        return cls(
            run=values["run"],
            folder=Path(values["folder"]),
            binaries=Binaries(Path(values["bin"]), values["version"]),
            identity=None if identity is None else Identity(**identity),
            settings=ServerSettings(**values["settings"]),
        )
