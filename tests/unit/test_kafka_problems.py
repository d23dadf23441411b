"""What is said of brokers that do not answer: no word of a client that gave up."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from assay.adapters.kafka.problems import failure_of, is_passing
from assay.domain.failures import AssayError, ConfigurationError


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT])
def test_brokers_that_are_away_are_named_as_the_cause(code: int) -> None:
    error = KafkaError(code)
    assert is_passing(error)
    told = failure_of(KafkaException(error), "t")
    assert isinstance(told, AssayError)
    assert not isinstance(told, ConfigurationError)
    assert "The brokers do not answer" in str(told)
    assert "--brokers" in str(told)
