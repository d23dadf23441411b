"""A pipeline's version: what changes it, what does not, and which pipelines cannot be."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Literal

import pytest
from example_contracts import Receipt, Ticket, ticket

from assay import Confidence, Contract, Pipeline, Price, Prompt, Reason, Rejected, Route
from assay.domain.definition import Difference, diff
from assay.domain.digest import canonical_json, definition_digest
from assay.domain.failures import ConfigurationError

BASE: dict[str, Any] = {
    "name": "tickets",
    "contract": Ticket,
    "model": "openai:gpt-5-mini",
    "prompt": Prompt("Sort the ticket."),
    "route": Route(accept_at=0.85),
}


def pipeline(**changes: Any) -> Pipeline:
    return Pipeline(**{**BASE, **changes})


class Narrower(Contract):
    category: Literal["billing", "technical"]
    confidence: Confidence
    reason: Reason


@pytest.mark.parametrize(
    "change",
    [
        {"contract": Narrower},
        {"model": "openai:gpt-5"},
        {"prompt": Prompt("Sort this ticket.")},
        {"prompt": Prompt("Sort the ticket.", "Ticket: {text}")},
        {"route": Route(accept_at=0.86)},
        {"route": Route()},
        {"parameters": {"temperature": 0}},
        {"rules_version": "2"},
        {"guidelines": "v2"},
        {"structured_output": False},
    ],
)
def test_content_changes_the_version(change: dict[str, Any]) -> None:
    before, after = pipeline(), pipeline(**change)
    assert before.version != after.version
    assert diff(before.definition, after.definition)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"label": "spring"},
        {"base_url": "http://127.0.0.1:8000/v1"},
        {"price": Price("0.25", 2)},
        {"max_attempts": 1},
        {"max_age_hours": 1.5},
        {"quality_probability": 0.1},
        {"call_timeout_seconds": 5},
        {"route": Route(accept_at=Decimal("0.850"))},
        {"parameters": {}},
    ],
)
def test_operation_does_not(change: dict[str, Any]) -> None:
    assert pipeline().version == pipeline(**change).version


def test_the_version_is_the_digest_of_the_definition() -> None:
    made = pipeline(parameters={"b": [1, 2.5], "a": None})
    assert made.version == definition_digest(json.loads(canonical_json(made.definition)))
    assert len(made.version) == 64
    assert made.version == pipeline(parameters={"a": None, "b": [1, 2.5]}).version


def test_definition_has_rules_with_their_source() -> None:
    definition = pipeline(contract=Receipt).definition
    assert definition["rules"]["Receipt.plausible_date"] == {"version": 2, "fields": ["issued"]}
    assert "self.issued.year < 1970" in definition["sources"]["Receipt.not_before_receipts"]


def test_differences_are_places() -> None:
    before = pipeline(parameters={"temperature": 0}).definition
    after = pipeline(parameters={"seed/1": 7}, model="openai:gpt-5").definition
    assert diff(before, after) == [
        Difference("/model", "openai:gpt-5-mini", "openai:gpt-5"),
        Difference("/parameters/seed~11", None, 7),
        Difference("/parameters/temperature", 0, None),
    ]
    assert diff(before, before) == []


def test_parameters_are_the_pipelines_own() -> None:
    mine: dict[str, Any] = {"stop": ["a"]}
    made = pipeline(parameters=mine)
    mine["stop"].append("b")
    assert made.parameters == {"stop": ["a"]}


def test_a_rejection_carries_the_version() -> None:
    verdict = pipeline().judge(ticket(confidence="1"))
    assert isinstance(verdict, Rejected)
    assert verdict.pipeline_version == pipeline().version


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "Tickets"}, "name is"),
        ({"name": ""}, "name is"),
        ({"name": "a" * 64}, "name is"),
        ({"name": "a\n"}, "name is"),
        ({"contract": dict}, "derived from assay.Contract"),
        ({"contract": Contract}, "derived from assay.Contract"),
        ({"contract": type("Empty", (Contract,), {"__module__": __name__})}, "no fields"),
        ({"model": "gpt-5-mini"}, "provider:name"),
        ({"model": "openai:"}, "provider:name"),
        ({"prompt": "Sort"}, "is a Prompt"),
        ({"route": 0.85}, "is a Route"),
        ({"price": 1}, "is a Price"),
        ({"parameters": {"x": float("nan")}}, "JSON cannot say"),
        ({"parameters": {"x": object()}}, "JSON cannot say"),
        ({"parameters": [1]}, "is a mapping"),
        ({"parameters": {"messages": []}}, "cannot set messages"),
        ({"base_url": "ftp://x"}, "http or https"),
        ({"label": "\u200b"}, "label is a text"),
        ({"rules_version": 2}, "rules_version is a text"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"max_age_hours": 0}, "max_age_hours"),
        ({"call_timeout_seconds": float("inf")}, "call_timeout_seconds"),
        ({"quality_probability": 1.1}, "quality_probability"),
        ({"structured_output": 1}, "structured_output"),
    ],
)
def test_a_pipeline_that_cannot_be(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as error:
        pipeline(**change)
    assert "\n" not in str(error.value)
