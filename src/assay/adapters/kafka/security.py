"""Where the brokers are and how to prove who we are: settings from the environment, for every Kafka client.

Values are passed on to librdkafka and shown nowhere: `Connection` prints the brokers alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from assay.domain.failures import ConfigurationError

BROKERS: Final = "ASSAY_KAFKA_BROKERS"
PROTOCOL: Final = "ASSAY_KAFKA_SECURITY_PROTOCOL"
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_BROKER: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}", re.ASCII)

# Environment variable: librdkafka's name. Files are checked to be there.
_SASL: Final = {
    "ASSAY_KAFKA_SASL_USERNAME": "sasl.username",
    "ASSAY_KAFKA_SASL_PASSWORD": "sasl.password",
}
_OAUTH: Final = {
    "ASSAY_KAFKA_OAUTH_TOKEN_URL": "sasl.oauthbearer.token.endpoint.url",
    "ASSAY_KAFKA_OAUTH_CLIENT_ID": "sasl.oauthbearer.client.id",
    "ASSAY_KAFKA_OAUTH_CLIENT_SECRET": "sasl.oauthbearer.client.secret",
    "ASSAY_KAFKA_OAUTH_SCOPE": "sasl.oauthbearer.scope",
    "ASSAY_KAFKA_OAUTH_EXTENSIONS": "sasl.oauthbearer.extensions",
}
_KERBEROS: Final = {
    "ASSAY_KAFKA_KERBEROS_SERVICE": "sasl.kerberos.service.name",
    "ASSAY_KAFKA_KERBEROS_PRINCIPAL": "sasl.kerberos.principal",
}
_FILES: Final = {
    "ASSAY_KAFKA_SSL_CA": "ssl.ca.location",
    "ASSAY_KAFKA_SSL_CERTIFICATE": "ssl.certificate.location",
    "ASSAY_KAFKA_SSL_KEY": "ssl.key.location",
    "ASSAY_KAFKA_KERBEROS_KEYTAB": "sasl.kerberos.keytab",
}
_SSL: Final = {"ASSAY_KAFKA_SSL_KEY_PASSWORD": "ssl.key.password"}
_MECHANISM: Final = "ASSAY_KAFKA_SASL_MECHANISM"


@dataclass(frozen=True, slots=True)
class Connection:
    """Brokers and security of one cluster. `config` is what a client takes, secrets included."""

    brokers: str
    security: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def config(self) -> dict[str, str | int | float | bool]:
        """Settings of a librdkafka client. Its own log is off: it may quote what we do not."""
        return {"bootstrap.servers": self.brokers, "client.id": "assay", "log_level": 0, **self.security}


def connection_of(environment: Mapping[str, str], brokers: str | None = None) -> Connection:
    """The cluster that `brokers` or ASSAY_KAFKA_BROKERS names, with the security of the environment.

    Raises `ConfigurationError` for what is missing, unknown or does not go together.
    """
    listed = brokers or environment.get(BROKERS) or ""
    hosts = [each.strip() for each in listed.split(",") if each.strip()]
    if not hosts:
        raise ConfigurationError(f"Name the brokers: --brokers HOST:PORT, or {BROKERS}.")
    if not all(_BROKER.fullmatch(host) for host in hosts):
        raise ConfigurationError("Brokers are written as HOST:PORT, several with commas between them.")
    return Connection(",".join(hosts), _security(environment))


def _security(environment: Mapping[str, str]) -> dict[str, str]:
    given = {name: value for name, value in environment.items() if value}
    mechanism = _choice(given, _MECHANISM, _MECHANISMS)
    files = {name: key for name, key in _FILES.items() if name in given}
    for name in files:
        if not Path(given[name]).is_file():
            raise ConfigurationError(f"{name} names a file that is not there; correct the path.")
    protocol = _choice(given, PROTOCOL, _PROTOCOLS)
    if protocol is None:
        if mechanism is None and not files:
            return {}
        secure = "SASL_SSL" if mechanism else "SSL"
        raise ConfigurationError(f"Set {PROTOCOL} as well, to {secure} for example.")
    config = {"security.protocol": protocol.lower()}
    if protocol.startswith("SASL_"):
        config |= _sasl(given, mechanism)
    elif mechanism is not None:
        raise ConfigurationError(f"{_MECHANISM} needs {PROTOCOL}=SASL_SSL (or SASL_PLAINTEXT).")
    passed = {**files, **_SSL}
    return config | {key: given[name] for name, key in passed.items() if name in given}


def _sasl(given: Mapping[str, str], mechanism: str | None) -> dict[str, str]:
    match mechanism:
        case None:
            raise ConfigurationError(f"Set {_MECHANISM} to one of {', '.join(_MECHANISMS)}.")
        case "OAUTHBEARER":
            needed, names = list(_OAUTH)[:3], _OAUTH
        case "GSSAPI":
            needed, names = [], _KERBEROS
        case _:
            needed, names = list(_SASL), _SASL
    if missing := [name for name in needed if name not in given]:
        raise ConfigurationError(f"{_MECHANISM}={mechanism} needs {' and '.join(missing)}; set them.")
    config = {"sasl.mechanisms": mechanism} | {names[name]: given[name] for name in names if name in given}
    if mechanism == "OAUTHBEARER":
        config["sasl.oauthbearer.method"] = "oidc"
    return config


def _choice(given: Mapping[str, str], name: str, known: tuple[str, ...]) -> str | None:
    chosen = given.get(name, "").strip().upper() or None
    if chosen is not None and chosen not in known:
        raise ConfigurationError(f"{name} is one of {', '.join(known)}; correct or unset it.")
    return chosen
