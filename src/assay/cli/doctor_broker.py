"""What `assay doctor` finds about Kafka: whether the brokers answer, and whether the topics are there."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

from assay.adapters.embedded.broker import EmbeddedBroker
from assay.adapters.kafka.security import BROKERS, Connection, connection_of
from assay.cli.finding import Finding, doubt, fault, fine
from assay.cli.tables import count
from assay.cli.up_places import find_up, read_plan
from assay.config import Settings

_TOPICS: Final = ("ASSAY_KAFKA_EVENTS_TOPIC", "ASSAY_KAFKA_DLQ_TOPIC")


def broker_findings(settings: Settings) -> Iterator[Finding]:
    """The brokers of the environment, else the embedded one where it runs; nothing where there is neither."""
    connection = _connection(settings)
    if connection is None:
        return
    if find_spec("confluent_kafka") is None:
        yield fault(
            "brokers", f"{connection.brokers}; not asked, for the extra `kafka` is not installed",
            "Run `pip install 'assay[kafka]'` in this environment.",
        )  # fmt: skip
        return
    from assay.adapters.kafka.broker_check import ask_brokers

    found = ask_brokers(connection)
    yield fine(
        "brokers", f"{count(found.brokers, 'broker')} at {connection.brokers}, cluster {found.cluster_id}"
    )
    for topic in _topics(settings):
        if topic in found.topics:
            yield fine("topic", topic)
        else:
            yield doubt("topic", f"{topic} is not there", "Create it at your brokers, or correct its name.")


def _connection(settings: Settings) -> Connection | None:
    if settings.environment.get(BROKERS):
        return connection_of(settings.environment)
    port = EmbeddedBroker(settings.project).status().port
    return None if port is None else Connection(f"127.0.0.1:{port}")


def _topics(settings: Settings) -> list[str]:
    """Those that the environment names, and those of what is up here."""
    named = [settings.environment.get(variable) for variable in _TOPICS]
    places = find_up(settings.project)
    plan = None if places is None else read_plan(places)
    return list(dict.fromkeys([*filter(None, named), *(() if plan is None else plan.topics)]))
