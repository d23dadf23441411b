"""A pipeline: a name, a contract, a model, a prompt and a route, and the version that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from assay.domain.boundary import Accepted, judge
from assay.domain.contract import Contract, plan_of
from assay.domain.contract_schema import contract_schema
from assay.domain.correction import correction_text
from assay.domain.definition_checks import (
    check_numbers,
    check_parameters,
    check_parts,
    check_strata,
    check_texts,
)
from assay.domain.digest import canonical_json, definition_digest
from assay.domain.price import Price
from assay.domain.prompt import Prompt
from assay.domain.rejection import Rejected
from assay.domain.route import Route
from assay.domain.source import validator_sources

# Raised when the form of `definition` changes: the same pipeline then has another version, knowingly.
FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Pipeline:
    """A line of versions of one labelling job.

    Part of the version: contract (schema, options, rules and validators with their source), model,
    parameters, prompt, correction text, route, structured_output, rules_version, guidelines. Not part of
    it, free to change between runs: name, label, base_url, price, max_attempts, max_age_hours,
    quality_probability, quality_strata, call_timeout_seconds, keep_responses_days.

    `model` is `provider:name`, for example `openai:gpt-5-mini` or `recorded:answers.csv#answer`.
    `parameters` go into the request as they are. `label` is a name for this version. `max_attempts` and
    `max_age_hours` bound the retries of one task. `quality_probability` is the share of records drawn for
    the quality pool at first claim, `quality_strata` the shares drawn by category when a label is accepted.
    `call_timeout_seconds` is the deadline of one call. `keep_responses_days` is how long responses that the
    contract refused are kept, sealed in the vault, so that another contract can judge them without a call; 0
    keeps none. Raises `ConfigurationError` with
    one sentence when something does not fit.
    """

    name: str
    contract: type[Contract]
    model: str
    prompt: Prompt
    route: Route
    parameters: Mapping[str, Any] = field(default_factory=dict)
    base_url: str | None = None
    label: str | None = None
    rules_version: str | None = None
    guidelines: str | None = None
    price: Price | None = None
    max_attempts: int = 5
    max_age_hours: float = 24
    quality_probability: float = 0.0
    quality_strata: Mapping[str, float] = field(default_factory=dict)
    call_timeout_seconds: float = 60.0
    keep_responses_days: float = 0.0
    structured_output: bool = True

    def __post_init__(self) -> None:
        check_texts(
            name=self.name,
            model=self.model,
            base_url=self.base_url,
            label=self.label,
            rules_version=self.rules_version,
            guidelines=self.guidelines,
        )
        check_parts(self.contract, self.prompt, self.route, self.price, self.structured_output)
        check_numbers(
            max_attempts=self.max_attempts,
            max_age_hours=self.max_age_hours,
            quality_probability=self.quality_probability,
            call_timeout_seconds=self.call_timeout_seconds,
            keep_responses_days=self.keep_responses_days,
        )
        object.__setattr__(self, "parameters", MappingProxyType(check_parameters(self.parameters)))
        object.__setattr__(self, "quality_strata", MappingProxyType(check_strata(self.quality_strata)))

    @cached_property
    def definition(self) -> dict[str, Any]:
        """Everything that makes this version, JSON-able. Raises `ConfigurationError` for unreadable rules."""
        accept_at = self.route.accept_at
        return {
            "format": FORMAT,
            "model": self.model,
            "parameters": dict(self.parameters),
            "prompt": {"system": self.prompt.system, "user": self.prompt.user},
            "correction": correction_text(self.contract),
            "contract": _contract_definition(self.contract),
            "rules": _rules_definition(self.contract),
            "sources": validator_sources(self.contract, declared=self.rules_version),
            "rules_version": self.rules_version,
            "route": {"accept_at": None if accept_at is None else f"{accept_at.normalize():f}"},
            "structured_output": self.structured_output,
            "guidelines": self.guidelines,
        }

    @cached_property
    def version(self) -> str:
        """SHA-256 (64 hex digits) of the canonical JSON of `definition`."""
        return definition_digest(self.definition)

    def judge(
        self, response: str | bytes, *, text: str | None = None, truncated: bool = False
    ) -> Accepted | Rejected:
        """`judge` with this pipeline's contract; a rejection carries the pipeline's version."""
        verdict = judge(self.contract, response, text=text, truncated=truncated)
        return verdict if isinstance(verdict, Accepted) else replace(verdict, pipeline_version=self.version)


def _contract_definition(contract: type[Contract]) -> dict[str, Any]:
    plan = plan_of(contract)
    return {
        "schema": contract_schema(contract),
        "confidence": plan.confidence_field,
        "label_field": plan.label_field,
        "insufficient_evidence": dict(contract.__assay_options__.insufficient_evidence),
        "max_response_bytes": plan.max_response_bytes,
        "sensitive": list(plan.sensitive_paths),
        # Only where there are some: contracts without quotes keep their version.
        **({"quotes": dict(plan.quotes)} if plan.quotes else {}),
    }


def _rules_definition(contract: type[Contract]) -> dict[str, Any]:
    return {
        f"{node.contract.__name__}.{rule.name}": {
            "version": rule.version,
            "fields": list(rule.fields),
            **({"sees_text": True} if rule.sees_text else {}),
        }
        for node in plan_of(contract).objects
        for rule in node.rules
    }


class Difference(NamedTuple):
    """One place where two definitions differ; None stands for absent."""

    path: str
    before: object
    after: object


def diff(before: object, after: object, path: str = "") -> list[Difference]:
    """Where two definitions differ, in path order (JSON Pointers)."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return [
            difference
            for key in sorted({*before, *after})
            for difference in diff(before.get(key), after.get(key), f"{path}/{_escaped(key)}")
        ]
    return [] if canonical_json(before) == canonical_json(after) else [Difference(path, before, after)]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
