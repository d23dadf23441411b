"""Changes of settings while the vendor runs: names and values as JSON has them, checked like the rest.

A name is a setting of `VendorConfig` listed in CHANGEABLE, or a fault of `FaultShares` with its share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Final, TypeAlias, get_args

from assay.vendor.errors import VendorSettingsError
from assay.vendor.gold import Json, JsonObject
from assay.vendor.limits import account_of
from assay.vendor.price import Price, read_price
from assay.vendor.settings import Distribution, Down, Idempotency, KeyState, RetryAfterForm, VendorConfig
from assay.vendor.shares import FaultShares

Value: TypeAlias = "str | int | float | bool | Price | None"
Reader: TypeAlias = Callable[[str, Json], Value]

FAULTS: Final = frozenset(one.name for one in fields(FaultShares) if one.init)


def _number(name: str, value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise VendorSettingsError(f"{name} must be a number")
    return float(value)


def _number_or_none(name: str, value: Json) -> float | None:
    return None if value is None else _number(name, value)


def _whole(name: str, value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise VendorSettingsError(f"{name} must be a whole number")
    return value


def _whole_or_none(name: str, value: Json) -> int | None:
    return None if value is None else _whole(name, value)


def _flag(name: str, value: Json) -> bool:
    if not isinstance(value, bool):
        raise VendorSettingsError(f"{name} must be true or false")
    return value


def _text_or_none(name: str, value: Json) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise VendorSettingsError(f"{name} must be a text, or null")
    return value


def _price(name: str, value: Json) -> Price | None:
    if value is not None and not isinstance(value, str):
        raise VendorSettingsError(f"{name} must be a text such as 0.25,2.00 or null")
    return None if value is None else read_price(value)


def _one_of(*choices: str) -> Reader:
    def read(name: str, value: Json) -> str:
        if not isinstance(value, str) or value not in choices:
            raise VendorSettingsError(f"{name} must be one of {', '.join(choices)}")
        return value

    return read


CHANGEABLE: Final[Mapping[str, Reader]] = {
    "error_rate": _number,
    "latency": _number,
    "latency_distribution": _one_of(*get_args(Distribution)),
    "latency_spread": _number,
    "latency_p99": _number_or_none,
    "latency_per_token": _number,
    "retry_after": _whole,
    "retry_after_form": _one_of(*get_args(RetryAfterForm)),
    "hang_seconds": _number,
    "drip_seconds": _number,
    "model": _text_or_none,
    "reply_model": _text_or_none,
    "switched_model": _text_or_none,
    "api_key": _text_or_none,
    "key_state": _one_of(*get_args(KeyState)),
    "down": _one_of(*get_args(Down)),
    "limit_requests": _whole_or_none,
    "limit_tokens": _whole_or_none,
    "limit_concurrency": _whole_or_none,
    "limit_burst": _number,
    "hide_limits": _flag,
    "idempotency": _one_of(*get_args(Idempotency)),
    "price": _price,
    "cached_share": _number,
}


def changed(config: VendorConfig, changes: Mapping[str, Json]) -> VendorConfig:
    """The settings with changes; raises VendorSettingsError naming what does not fit."""
    shares: dict[str, Any] = {}
    values: dict[str, Any] = {}  # each of its field's type: CHANGEABLE sees to that
    for name, value in changes.items():
        if name in FAULTS:
            shares[name] = _number(name, value)
        elif name in CHANGEABLE:
            values[name] = CHANGEABLE[name](name, value)
        else:
            raise VendorSettingsError(f"{name} is no setting that can change; the page lists those that can")
    faults = replace(config.faults, **shares) if shares else config.faults
    return replace(config, faults=faults, **values)


def settings_shown(config: VendorConfig) -> JsonObject:
    """What can change, as it is now; an API key as its account's name."""
    shown: JsonObject = {name: _shown(name, getattr(config, name)) for name in CHANGEABLE}
    return {**shown, **dict(config.faults.items())}


def changes_shown(changes: Mapping[str, Json]) -> JsonObject:
    """Changes as the journal holds them: an API key as its account's name."""
    return {name: _shown(name, value) for name, value in changes.items()}


def _shown(name: str, value: Json | Price) -> Json:
    if name == "api_key" and isinstance(value, str):
        return account_of(value)
    return str(value) if isinstance(value, Price) else value
