"""The boundary on real inputs from elsewhere: parsing suites, model outputs, naughty strings."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from example_contracts import Receipt, Ticket, ticket

from assay import Accepted, BlankAllowed, Contract, Rejected, judge
from assay.domain.json_text import DuplicateKey, JsonInvalid, read_iteratively, read_json
from assay.domain.rejection import RejectionCode
from assay.domain.text import is_blank, is_storable

SHARED = Path(
    os.environ.get("ASSAY_SHARED_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data")
)
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="real inputs are not here: set ASSAY_SHARED_DATA")
LIMIT = 100_000_000


class Anything(Contract):
    text: Annotated[str, BlankAllowed()]


def rows(name: str) -> Iterator[dict[str, Any]]:
    with (SHARED / name).open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def raw_bytes(row: dict[str, Any]) -> bytes:
    if row.get("raw_b64") is not None:
        return base64.b64decode(row["raw_b64"])
    return str(row["raw_text"]).encode("utf-8", "surrogatepass")


def reading(text: str) -> str:
    """How both readers read a text; they must agree."""
    outcomes = set()
    for reader in (read_json, read_iteratively):
        try:
            reader(text)
            outcomes.add("value")
        except JsonInvalid:
            outcomes.add("invalid")
        except DuplicateKey:
            outcomes.add("duplicate")
    (only,) = outcomes
    return only


def verdicts(response: str | bytes) -> list[Rejected]:
    """Refusals by two contracts that the response cannot satisfy; never a crash."""
    found = [judge(contract, response, max_response_bytes=LIMIT) for contract in (Ticket, Receipt)]
    refused = [verdict for verdict in found if isinstance(verdict, Rejected)]
    assert len(refused) == len(found)
    assert all(verdict.code is not RejectionCode.UNEXPECTED_PARSE_ERROR for verdict in refused)
    return refused


def test_json_test_suite() -> None:
    counted = {"y": 0, "n": 0, "i": 0}
    for row in rows("json/JSONTestSuite.jsonl"):
        raw, kind = raw_bytes(row), row["name"][0]
        if row["folder"] != "test_parsing":
            verdicts(raw)
            continue
        counted[kind] += 1
        codes = {verdict.code for verdict in verdicts(raw)}
        before_schema = {RejectionCode.JSON_INVALID, RejectionCode.RESPONSE_EMPTY}
        if kind == "y":
            twice = "duplicated_key" in row["name"]
            assert codes.isdisjoint(before_schema), row["name"]
            assert (codes == {RejectionCode.JSON_DUPLICATE_KEY}) is twice, row["name"]
            assert reading(raw.decode("utf-8")) == ("duplicate" if twice else "value")
        elif kind == "n":
            assert codes <= before_schema, row["name"]
    assert counted["y"] > 90
    assert counted["n"] > 180
    assert counted["i"] > 30


@pytest.mark.parametrize("suite", ["json_repair", "langchain", "partialjson"])
def test_malformed_model_outputs(suite: str) -> None:
    seen = 0
    for row in rows(f"json/llm_malformed_{suite}.jsonl"):
        text = row["raw_text"]
        if not isinstance(text, str):
            continue
        seen += 1
        codes = {verdict.code for verdict in verdicts(text)}
        refused_as_text = codes <= {RejectionCode.JSON_INVALID, RejectionCode.RESPONSE_EMPTY}
        assert refused_as_text is not row["is_strict_json"] or "duplicate" in reading(text), row["name"]
    assert seen > 30


def test_schema_cases_are_values_like_any_other() -> None:
    seen = 0
    for row in rows("json/json_schema_2020_12_required.jsonl"):
        for value in (row["data"], row["schema"]):
            seen += 1
            text = json.dumps(value)
            assert {verdict.code.value[:6] for verdict in verdicts(text)} == {"schema"}
            assert reading(text) == "value"
    assert seen > 2000


def contents(value: object) -> Iterator[str]:
    """Every text inside a recorded exchange."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from contents(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from contents(item)


def test_recorded_exchanges() -> None:
    seen = 0
    for row in rows("json/llm_api_recordings_160.jsonl"):
        for text in {*contents(row), json.dumps(row)}:
            seen += 1
            verdicts(text)
    assert seen > 1000


def test_naughty_strings_as_responses_and_as_text() -> None:
    strings = json.loads((SHARED / "nasty" / "blns.json").read_text(encoding="utf-8"))
    assert len(strings) > 500
    for text in strings:
        verdicts(text)
        verdict = judge(Anything, json.dumps({"text": text}), max_response_bytes=LIMIT)
        assert isinstance(verdict, Accepted) is is_storable(text)
        fits = not is_blank(text) and is_storable(text) and len(text) <= 300
        assert isinstance(judge(Ticket, ticket(reason=text)), Accepted) is fits
