"""What an error of the Kafka client means: it passes, a person must act, or the client has given up."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from assay.domain.failures import AssayError, ConfigurationError

_REFUSED: Final = {
    KafkaError._AUTHENTICATION: "The broker refuses the credentials; check the SASL and TLS settings.",
    KafkaError._SSL: "The connection to the broker is not secure as set; check the TLS settings.",
    KafkaError.SASL_AUTHENTICATION_FAILED: "The broker refuses the credentials; check the SASL settings.",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "This user may not read the topic {topic}; grant it.",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "This user may not join the group; grant it at the broker.",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "This user may not use the cluster; grant it at the broker.",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "There is no topic {topic} at these brokers; create it.",
    KafkaError.TOPIC_EXCEPTION: "The broker does not accept {topic} as the name of a topic; check it.",
    KafkaError.UNSUPPORTED_SASL_MECHANISM: "The broker does not know this SASL mechanism; check it.",
    KafkaError.UNSUPPORTED_ASSIGNOR: "The broker does not know this assignor; check the group protocol.",
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: "Other members share partitions in another way; give all of "
    "them the same --assignor and --group-protocol.",
    KafkaError.FENCED_INSTANCE_ID: "Another member has this --instance-id; give each its own.",
    KafkaError.UNRELEASED_INSTANCE_ID: "Another member has this --instance-id; give each its own, or "
    "wait until it has left.",
}  # fmt: skip


_AWAY: Final = frozenset({
    KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
})  # fmt: skip


def is_passing(error: KafkaError) -> bool:
    """Whether the same again may go well without anybody's doing."""
    # What ends a client comes in a message, which has the code alone and not the mark of being fatal.
    return not error.fatal() and error.code() not in {KafkaError._FATAL, *_REFUSED}


def failure_of(defect: Exception, topic: str) -> Exception:
    """The error to end with: one sentence for what a person can mend, the defect itself else."""
    if not isinstance(defect, KafkaException):
        return defect
    error: KafkaError = defect.args[0]
    sentence = _REFUSED.get(_cause(error))
    if sentence is not None:
        return ConfigurationError(sentence.format(topic=topic))
    if error.code() in _AWAY:
        return AssayError(
            "The brokers do not answer; nothing is lost. See that they run and that --brokers or "
            "ASSAY_KAFKA_BROKERS names them, then try again."
        )
    return AssayError(f"The Kafka client gave up ({error.name()}); nothing is lost. Start the worker again.")


def _cause(error: KafkaError) -> int:
    """The code behind "fatal": the client tells it in words alone."""
    if error.code() != KafkaError._FATAL:
        return error.code()
    return next((code for code in _REFUSED if KafkaError(code).str() in error.str()), error.code())
