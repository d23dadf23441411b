"""Addresses of model servers: from a base URL to the URL of a call, and whose limits calls are under."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from pydantic import SecretStr
from yarl import URL

from assay.domain.failures import ConfigurationError

_AZURE_HOSTS: Final = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
_DEPLOYMENTS: Final = "/openai/deployments/"
_VERSION: Final = re.compile(r"v[0-9]+(beta|alpha)?[0-9]*", re.ASCII)
_KEY_DIGITS: Final = 8


def parse_base_url(base_url: str) -> URL:
    """The base URL, checked. Raises `ConfigurationError`."""
    try:
        base = URL(base_url)
    except ValueError:
        base = URL()
    if base.scheme not in ("http", "https") or base.host is None:
        raise ConfigurationError("The model's base URL must look like https://host/v1: correct it.")
    if base.raw_user is not None or base.raw_password is not None:
        raise ConfigurationError(
            "The model's base URL holds a user name or password: take it out and set the key instead."
        )
    return base


def is_azure(base: URL) -> bool:
    """Whether Azure's manners are spoken: by its hosts, and by gateways that keep its deployment paths."""
    return (base.host or "").endswith(_AZURE_HOSTS) or _DEPLOYMENTS in f"{base.raw_path}/"


def openai_url(base_url: str, endpoint: str, model: str) -> URL:
    """The address of `endpoint` (`chat/completions`, `responses`) under a base URL, whose query is kept.

    Azure's bare host gets its path: the deployment named like the model where the query holds an
    `api-version`, the version-free `/openai/v1` where not.
    """
    base = parse_base_url(base_url)
    if is_azure(base) and base.raw_path in ("", "/"):
        deployed = "api-version" in base.query and endpoint == "chat/completions"
        path = f"{_DEPLOYMENTS}{URL.build(path=model).raw_path}" if deployed else "/openai/v1"
        base = base.with_path(path, encoded=True).with_query(base.query)
    return _under(base, endpoint)


def anthropic_url(base_url: str) -> URL:
    """The address of Messages under a base URL with or without its `/v1`."""
    base = parse_base_url(base_url)
    versioned = _VERSION.fullmatch(base.raw_path.rstrip("/").rpartition("/")[2])
    return _under(base, "messages" if versioned or base.raw_path.endswith("/messages") else "v1/messages")


def _under(base: URL, endpoint: str) -> URL:
    path = base.raw_path.rstrip("/")
    if not path.endswith(f"/{endpoint}"):
        path = f"{path}/{endpoint}"
    return base.with_path(path, encoded=True).with_query(base.query)


def header_safe_key(api_key: SecretStr) -> str:
    """The key as it goes into a header. Raises `ConfigurationError`, without the key, if it cannot."""
    key = api_key.get_secret_value()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError(
            "The API key is empty or holds characters that no key has: set it without spaces or line ends."
        )
    return key


def account_name(url: URL, api_key: SecretStr | None) -> str:
    """Whose limits calls count against: the address and the first 8 hex digits of the key's SHA-256."""
    digits = "-"
    if api_key is not None:
        secret = api_key.get_secret_value().encode("utf-8", "surrogatepass")
        digits = hashlib.sha256(secret).hexdigest()[:_KEY_DIGITS]
    return f"{url.origin()}#{digits}"
