"""Kafka's client is an extra: who lacks it is told how to get it."""

from __future__ import annotations

from importlib.util import find_spec

from assay.domain.failures import ConfigurationError


def require_kafka() -> None:
    """Raises `ConfigurationError` where the extra is not installed."""
    if find_spec("confluent_kafka") is None:
        raise ConfigurationError(
            "Kafka needs confluent-kafka: `pip install 'assay[kafka]'` in this environment."
        )
