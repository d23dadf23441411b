"""How the embedded broker is run: what a caller may choose, its command line, the supervisor's order."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from assay.adapters.embedded.processes import Identity, server_environment


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """What a caller may choose. The process that starts the broker decides for all that join it.

    `port`: a port of 127.0.0.1; 0 takes the last one again, or any that is free. `idle_grace`: seconds
    without any client before the broker stops, and forgets all it holds. `connect_timeout`: seconds that it
    may take to answer.
    """

    port: int = 0
    idle_grace: float = 20.0
    connect_timeout: float = 10.0
    log_bytes: int = 5_000_000


@dataclass(frozen=True, slots=True)
class BrokerProgram:
    """The broker's program, and the version that it reports."""

    path: Path
    version: str


@dataclass(frozen=True, slots=True)
class BrokerOrder:
    """What the starter tells the supervisor. `run` names this life of the supervisor."""

    run: str
    folder: Path
    program: BrokerProgram
    identity: Identity | None
    settings: BrokerSettings

    def to_argument(self) -> str:
        """The order as JSON; it holds no secret."""
        return json.dumps(
            {
                "run": self.run,
                "folder": str(self.folder),
                "program": str(self.program.path),
                "version": self.program.version,
                "identity": None if self.identity is None else asdict(self.identity),
                "settings": asdict(self.settings),
            }
        )

    @classmethod
    def from_argument(cls, argument: str) -> BrokerOrder:
        """The order back from `to_argument`."""
        values = json.loads(argument)
        identity = values["identity"]
        return cls(
            run=values["run"],
            folder=Path(values["folder"]),
            program=BrokerProgram(Path(values["program"]), values["version"]),
            identity=None if identity is None else Identity(**identity),
            settings=BrokerSettings(**values["settings"]),
        )


def broker_command(program: Path, port: int, cluster_id: str) -> list[str]:
    """The command line of the broker: in memory, for this machine alone. The cluster id names one life."""
    address = f"tcp://127.0.0.1:{port}"
    return [
        str(program),
        "broker",
        "--listener-url",
        address,
        "--advertised-listener-url",
        address,
        "--storage-engine",
        "memory://assay/",
        "--cluster-id",
        cluster_id,
    ]


def broker_environment() -> dict[str, str]:
    """What the broker sees: its errors without colours, and none of the caller's variables."""
    return {**server_environment(), "RUST_LOG": "error", "NO_COLOR": "1"}
