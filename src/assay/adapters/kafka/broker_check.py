"""Whether brokers answer at all: asked at once by commands that would rather say so than wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

from assay.adapters.kafka.problems import failure_of, is_passing
from assay.adapters.kafka.security import BROKERS, Connection
from assay.domain.failures import ConfigurationError

ASK_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """What brokers answer: who they are, how many, and which topics there are."""

    cluster_id: str
    brokers: int
    topics: frozenset[str]


class BrokerQuestion:
    """One client for the same question again and again, so that it is connected already. For one thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._refused: KafkaError | None = None
        self._client = Producer(connection.config | {"error_cb": self._on_error})

    def ask(self, seconds: float = ASK_SECONDS) -> Cluster:
        """Ask for what there is, and wait so long at most.

        Raises `ConfigurationError`, in one sentence, where no broker answers or where it refuses who we are.
        """
        self._refused = None
        try:
            found = self._client.list_topics(timeout=seconds)
        except KafkaException as error:
            self._client.poll(0)  # why there is no connection is told to the callback alone
            problem = self._refused or error.args[0]
            if not is_passing(problem):
                raise failure_of(KafkaException(problem), "") from None
            raise ConfigurationError(no_answer(self._connection)) from None
        names = frozenset(name for name, topic in found.topics.items() if topic.error is None)
        return Cluster(str(found.cluster_id or ""), len(found.brokers), names)

    def _on_error(self, error: KafkaError) -> None:
        if not is_passing(error):
            self._refused = error


def ask_brokers(connection: Connection, seconds: float = ASK_SECONDS) -> Cluster:
    """Ask once; see `BrokerQuestion.ask`."""
    return BrokerQuestion(connection).ask(seconds)


def no_answer(connection: Connection) -> str:
    """The sentence for brokers that are not there."""
    return (
        f"No broker answers at {connection.brokers}: start it, or correct the address (--brokers, {BROKERS})."
    )
