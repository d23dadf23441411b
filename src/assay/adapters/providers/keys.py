"""API keys from the environment: each goes to its own vendor alone.

ASSAY_MODEL_API_KEY goes to whatever server the pipeline names. OPENAI_API_KEY and ANTHROPIC_API_KEY go to the
hosts of their vendors, over https, and never to another base URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import SecretStr
from yarl import URL

from assay.adapters.providers.addresses import parse_base_url
from assay.domain.failures import ConfigurationError

MODEL_KEY: Final = "ASSAY_MODEL_API_KEY"
OPENAI_KEY: Final = "OPENAI_API_KEY"
ANTHROPIC_KEY: Final = "ANTHROPIC_API_KEY"


@dataclass(frozen=True, slots=True)
class _Vendor:
    variable: str
    host: str

    def owns(self, url: URL) -> bool:
        host = url.host or ""
        return host == self.host or host.endswith(f".{self.host}")


VENDORS: Final = (_Vendor(OPENAI_KEY, "api.openai.com"), _Vendor(ANTHROPIC_KEY, "api.anthropic.com"))


def resolve_key(base_url: str, environment: Mapping[str, str]) -> SecretStr | None:
    """The API key for a base URL; None where a server of one's own needs none.

    Raises `ConfigurationError` where a vendor is named without its key, or over plain http.
    """
    url = parse_base_url(base_url)
    key = environment.get(MODEL_KEY)
    vendor = next((vendor for vendor in VENDORS if vendor.owns(url)), None)
    if vendor is not None:
        if url.scheme != "https":
            raise ConfigurationError(f"A key is never sent to {vendor.host} over http: write https://.")
        key = key or environment.get(vendor.variable)
        if not key:
            raise ConfigurationError(
                f"No API key for {vendor.host}: set {vendor.variable} (or {MODEL_KEY}),"
                " or give the model a base URL of your own."
            )
    return SecretStr(key) if key else None
