"""Settings of a Kafka connection: what goes together, what is missing, and that nothing secret is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.adapters.kafka.security import connection_of
from assay.domain.failures import ConfigurationError

PLAIN = {
    "ASSAY_KAFKA_BROKERS": "kafka-1:9092, kafka-2:9092",
    "ASSAY_KAFKA_SECURITY_PROTOCOL": "sasl_ssl",
    "ASSAY_KAFKA_SASL_MECHANISM": "scram-sha-512",
    "ASSAY_KAFKA_SASL_USERNAME": "worker",
    "ASSAY_KAFKA_SASL_PASSWORD": "planted-secret",
}
OAUTH = {
    "ASSAY_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "ASSAY_KAFKA_SASL_MECHANISM": "OAUTHBEARER",
    "ASSAY_KAFKA_OAUTH_TOKEN_URL": "https://id.example.org/token",
    "ASSAY_KAFKA_OAUTH_CLIENT_ID": "assay",
    "ASSAY_KAFKA_OAUTH_CLIENT_SECRET": "planted-secret",
}


def test_brokers_come_from_the_option_or_the_environment() -> None:
    assert connection_of(PLAIN).brokers == "kafka-1:9092,kafka-2:9092"
    assert connection_of(PLAIN, "[::1]:9092").brokers == "[::1]:9092"


def test_a_plain_connection_has_no_security() -> None:
    assert connection_of({}, "localhost:9092").security == {}


def test_scram_over_tls() -> None:
    config = connection_of(PLAIN).config
    assert config["security.protocol"] == "sasl_ssl"
    assert config["sasl.mechanisms"] == "SCRAM-SHA-512"
    assert config["sasl.password"] == "planted-secret"


def test_oauth_asks_for_tokens_itself() -> None:
    config = connection_of(OAUTH, "kafka:9093").config
    assert config["sasl.oauthbearer.method"] == "oidc"
    assert config["sasl.oauthbearer.client.secret"] == "planted-secret"


def test_certificates_are_files(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("pem")
    given = {
        "ASSAY_KAFKA_SECURITY_PROTOCOL": "SSL",
        "ASSAY_KAFKA_SSL_CA": str(tmp_path / "ca.pem"),
        "ASSAY_KAFKA_SSL_KEY_PASSWORD": "planted-secret",
    }
    config = connection_of(given, "kafka:9093").config
    assert config["ssl.ca.location"] == str(tmp_path / "ca.pem")
    assert config["ssl.key.password"] == "planted-secret"


def test_nothing_secret_is_shown() -> None:
    for given in (PLAIN, OAUTH):
        assert "planted" not in repr(connection_of(given, "kafka:9093"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"ASSAY_KAFKA_BROKERS": ""}, "Name the brokers"),
        ({"ASSAY_KAFKA_BROKERS": "kafka"}, "HOST:PORT"),
        ({"ASSAY_KAFKA_BROKERS": "user:pw@kafka:9092"}, "HOST:PORT"),
        ({"ASSAY_KAFKA_SECURITY_PROTOCOL": ""}, "ASSAY_KAFKA_SECURITY_PROTOCOL as well, to SASL_SSL"),
        ({"ASSAY_KAFKA_SECURITY_PROTOCOL": "TLS"}, "is one of"),
        ({"ASSAY_KAFKA_SECURITY_PROTOCOL": "SSL"}, "needs ASSAY_KAFKA_SECURITY_PROTOCOL=SASL_SSL"),
        ({"ASSAY_KAFKA_SASL_MECHANISM": ""}, "Set ASSAY_KAFKA_SASL_MECHANISM"),
        ({"ASSAY_KAFKA_SASL_PASSWORD": ""}, "needs ASSAY_KAFKA_SASL_PASSWORD"),
        ({"ASSAY_KAFKA_SSL_CA": "/nowhere/ca.pem"}, "ASSAY_KAFKA_SSL_CA names a file that is not there"),
    ],
)
def test_what_does_not_fit_is_told_in_a_sentence(change: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as refused:
        connection_of(PLAIN | change)
    assert "planted" not in str(refused.value)
