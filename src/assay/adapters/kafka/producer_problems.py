"""What an error of a delivery means for the event, and for the producer."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

from assay.domain.failures import ConfigurationError

# The broker (or the client, before it) refuses this very message.
_POISON: Final[dict[int, str]] = {
    KafkaError.MSG_SIZE_TOO_LARGE: "message_too_large",
    KafkaError.RECORD_LIST_TOO_LARGE: "message_too_large",
    KafkaError.INVALID_RECORD: "invalid_record",
    KafkaError.POLICY_VIOLATION: "policy_violation",
}
# What a person must mend at the broker or in the settings.
_REFUSED: Final[dict[int, str]] = {
    KafkaError._AUTHENTICATION: "The broker refuses the credentials; check the SASL and TLS settings.",
    KafkaError._SSL: "The connection to the broker is not secure as set; check the TLS settings.",
    KafkaError.SASL_AUTHENTICATION_FAILED: "The broker refuses the credentials; check the SASL settings.",
    KafkaError.UNSUPPORTED_SASL_MECHANISM: "The broker does not know this SASL mechanism; check it.",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "This user may not write to the topic; grant it at the broker.",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "This user may not use the cluster; grant it at the broker.",
    KafkaError.TOPIC_EXCEPTION: "The broker does not accept this name of a topic; check it.",
}
_NAMES: Final[dict[int, str]] = {
    KafkaError._MSG_TIMED_OUT: "timed_out",
    KafkaError._TIMED_OUT: "timed_out",
    KafkaError._PURGE_QUEUE: "timed_out",
    KafkaError._PURGE_INFLIGHT: "timed_out",
    KafkaError._TRANSPORT: "no_connection",
    KafkaError._ALL_BROKERS_DOWN: "no_connection",
    KafkaError._RESOLVE: "no_connection",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "topic_unknown",
    KafkaError._UNKNOWN_TOPIC: "topic_unknown",
    KafkaError._UNKNOWN_PARTITION: "topic_unknown",
    KafkaError.NOT_ENOUGH_REPLICAS: "too_few_replicas",
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "too_few_replicas",
}


def poison_of(error: KafkaError) -> str | None:
    """The code for a message that is refused for good; None for any other error."""
    return _POISON.get(error.code())


def code_of(error: KafkaError) -> str:
    """Our word for an error that may pass."""
    return _NAMES.get(error.code()) or f"kafka_{error.name().strip('_').lower()}"


def refusal_of(error: KafkaError) -> ConfigurationError | None:
    """What a person must mend, in a sentence; None for an error that may pass."""
    sentence = _REFUSED.get(error.code())
    return None if sentence is None else ConfigurationError(sentence)
