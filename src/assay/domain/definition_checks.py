"""What must fit before a pipeline exists; each check raises one `ConfigurationError` sentence."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from pydantic import PydanticUserError

from assay.domain.contract import is_contract, plan_of
from assay.domain.digest import canonical_json
from assay.domain.failures import ConfigurationError
from assay.domain.price import Price
from assay.domain.prompt import Prompt
from assay.domain.route import Route
from assay.domain.text import is_blank, is_storable

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_MODEL: Final = re.compile(r"[a-z][a-z0-9_-]*:\S.*")
_URL: Final = re.compile(r"https?://[^\s/?#]+[^\s?#]*")
# What the adapters write themselves.
RESERVED_PARAMETERS: Final = frozenset({"messages", "model", "response_format", "stream"})


def check_texts(
    *,
    name: object,
    model: object,
    base_url: object,
    label: object,
    rules_version: object,
    guidelines: object,
) -> None:
    """Names, model and the optional texts."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(
            "A pipeline's name is 1 to 63 of a-z, 0-9, '-' and '_', and starts with a letter or a digit."
        )
    if not isinstance(model, str) or not _MODEL.fullmatch(model):
        raise ConfigurationError(f"Pipeline {name}: model is provider:name, for example openai:gpt-5-mini.")
    if base_url is not None and not (isinstance(base_url, str) and _URL.fullmatch(base_url)):
        raise ConfigurationError(f"Pipeline {name}: base_url is an http or https address without a query.")
    for field, value in {"label": label, "rules_version": rules_version, "guidelines": guidelines}.items():
        if value is not None and not (isinstance(value, str) and not is_blank(value) and is_storable(value)):
            raise ConfigurationError(f"Pipeline {name}: {field} is a text that is not blank, or None.")


def check_parts(
    contract: object, prompt: object, route: object, price: object, structured_output: object
) -> None:
    """The objects that a pipeline is made of."""
    if not (isinstance(contract, type) and is_contract(contract)):
        raise ConfigurationError(
            "Pipeline(contract=...) is a class derived from assay.Contract; give the class."
        )
    try:
        plan = plan_of(contract)
    except (TypeError, PydanticUserError, NameError) as error:
        raise ConfigurationError(f"The contract {contract.__name__} cannot be used: {error}") from error
    if not plan.root.fields:
        raise ConfigurationError(f"The contract {contract.__name__} has no fields; declare at least one.")
    if not isinstance(prompt, Prompt):
        raise ConfigurationError(
            "Pipeline(prompt=...) is a Prompt; use Prompt(system, user) or Prompt.from_file."
        )
    if not isinstance(route, Route):
        raise ConfigurationError("Pipeline(route=...) is a Route, for example Route(accept_at=0.85).")
    if price is not None and not isinstance(price, Price):
        raise ConfigurationError("Pipeline(price=...) is a Price, for example Price(0.25, 2), or None.")
    if not isinstance(structured_output, bool):
        raise ConfigurationError("Pipeline(structured_output=...) is True or False.")


def check_numbers(
    *,
    max_attempts: object,
    max_age_hours: object,
    quality_probability: object,
    call_timeout_seconds: object,
    keep_responses_days: object,
) -> None:
    """Limits and shares."""
    if isinstance(max_attempts, bool) or not isinstance(max_attempts, int) or not 1 <= max_attempts <= 1000:
        raise ConfigurationError("Pipeline(max_attempts=...) is an integer from 1 to 1000.")
    for field, value in {
        "max_age_hours": max_age_hours,
        "call_timeout_seconds": call_timeout_seconds,
    }.items():
        if not _is_number(value) or value <= 0:
            raise ConfigurationError(f"Pipeline({field}=...) is a number greater than 0.")
    if not _is_number(keep_responses_days) or not 0 <= keep_responses_days <= 3650:
        raise ConfigurationError("Pipeline(keep_responses_days=...) is a number of days from 0 to 3650.")
    if not _is_number(quality_probability) or not 0 <= quality_probability <= 1:
        raise ConfigurationError("Pipeline(quality_probability=...) is a number from 0 to 1.")


def check_strata(strata: object) -> dict[str, float]:
    """An own copy of the shares by category."""
    if not isinstance(strata, Mapping) or not all(
        isinstance(category, str) and _is_number(share) and 0 <= share <= 1
        for category, share in strata.items()
    ):
        raise ConfigurationError(
            'Pipeline(quality_strata=...) maps categories to shares from 0 to 1, for example {"other": 0.2}.'
        )
    return dict(strata)


def check_parameters(parameters: object) -> dict[str, Any]:
    """An own copy of the request parameters, as JSON says them."""
    if not isinstance(parameters, Mapping) or not all(isinstance(key, str) for key in parameters):
        raise ConfigurationError('Pipeline(parameters=...) is a mapping, for example {"temperature": 0}.')
    taken = sorted(RESERVED_PARAMETERS.intersection(parameters))
    if taken:
        raise ConfigurationError(f"Pipeline(parameters=...) cannot set {taken[0]}; assay writes it itself.")
    try:
        copied: dict[str, Any] = json.loads(canonical_json(dict(parameters)))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            "Pipeline(parameters=...) holds a value that JSON cannot say; remove it."
        ) from error
    return copied


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
