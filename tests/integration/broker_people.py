"""Client processes of the embedded broker, for the people of the tests of the embedded PostgreSQL."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from embedded_people import Client, Person

from assay.adapters.embedded.broker_places import BrokerPlaces

_CLIENT = """
import dataclasses, json, os, sys
from pathlib import Path
from assay.adapters.embedded.broker import BrokerSettings, EmbeddedBroker
from assay.domain.failures import AssayError

def say(**values):
    print(json.dumps(values, default=str), flush=True)

project, settings = json.loads(sys.argv[1])
broker = EmbeddedBroker(
    Path(project), settings=BrokerSettings(**settings), progress=lambda text: say(progress=text)
)
leases = []

def acquire():
    leases.append(broker.acquire())
    return leases[-1].bootstrap

def release():
    leases.pop().release()

def status():
    return dataclasses.asdict(broker.status())

def stop(force=False):
    return broker.stop(30, force=force)

say(ready=os.getpid())
for line in sys.stdin:
    verb, *rest = json.loads(line)
    try:
        say(value=globals()[verb](*rest))
    except AssayError as error:
        say(error=str(error), kind=type(error).__name__)
"""


@contextmanager
def client_of(
    person: Person, project: Path, *, environment: Mapping[str, str] | None = None, **settings: object
) -> Iterator[Client]:
    """A process of this person with one EmbeddedBroker, whose idle grace is 0.3 seconds."""
    chosen = json.dumps([str(project), {"idle_grace": 0.3, **settings}])
    other = person.uid != os.geteuid()
    process = subprocess.Popen(
        [str(person.python), "-c", _CLIENT, chosen],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={**person.environment, **(environment or {})},
        user=person.uid if other else None,
        group=person.gid if other else None,
        extra_groups=[] if other else None,
    )
    client = Client(process, person)
    client.hear()
    try:
        yield client
    finally:
        client.close()


def places_of(person: Person, project: Path) -> BrokerPlaces:
    """Where the broker of `project` keeps its state."""
    if person.uid != 0:
        return BrokerPlaces(project / ".assay" / "broker")
    return BrokerPlaces(person.places(project).folder / "broker")
