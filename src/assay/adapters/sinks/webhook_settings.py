"""Where a webhook goes, and its secrets, from settings and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from yarl import URL

from assay.consumer.signature import secrets_of
from assay.domain.events import SOURCE
from assay.domain.failures import ConfigurationError

VARIABLE: Final = "ASSAY_WEBHOOK_SECRET"


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """One endpoint. `secrets`: one, or the new one and the one it replaces; a request is signed with each.

    `batch`: events in one request; 1 sends each alone, more send a JSON array. `concurrency`: requests at
    once. Seconds: `connect_seconds` for a connection, `request_seconds` for a request, `send_seconds` for one
    call of `publish`.
    """

    url: URL = field(repr=False)
    secrets: tuple[bytes, ...] = field(repr=False)
    source: str = SOURCE
    batch: int = 1
    concurrency: int = 8
    connect_seconds: float = 5.0
    request_seconds: float = 10.0
    send_seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.url.scheme not in {"http", "https"} or not self.url.host:
            raise ConfigurationError("The webhook's address is an http or https URL.")
        if self.url.user is not None or self.url.password is not None:
            raise ConfigurationError(
                "The webhook's address holds a user name or password; the signature says who sends, "
                f"see {VARIABLE}."
            )
        if not self.secrets:
            raise ConfigurationError(f"Set {VARIABLE}; make one with: openssl rand -base64 32.")
        if self.batch < 1 or self.concurrency < 1:
            raise ConfigurationError("A webhook's batch and concurrency are 1 or more.")
        if min(self.connect_seconds, self.request_seconds, self.send_seconds) <= 0:
            raise ConfigurationError("A webhook's time limits are more than 0 seconds.")


def webhook_secrets(environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """The secrets of this process. Raises `ConfigurationError` where there is none or it does not fit."""
    given = environment.get(VARIABLE)
    if not given:
        raise ConfigurationError(f"Set {VARIABLE}; make one with: openssl rand -base64 32.")
    try:
        return secrets_of(given)
    except ValueError as error:
        raise ConfigurationError(f"{VARIABLE} does not fit. {error}") from None
