"""What a contract may be, and what is refused when the class is defined."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NewType, TypeVar
from uuid import UUID

import pytest
from example_contracts import LineItem, Receipt, Ticket
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FutureDate,
    SecretStr,
    StringConstraints,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

from assay import Accepted, BlankAllowed, Confidence, Contract, DecimalText, Plain, Reason, Rejected, judge
from assay.domain.contract import plan_of


class Colour(enum.Enum):
    RED = "red"
    TWO = 2


class Size(enum.IntEnum):
    S = 1
    L = 2


class Cat(Contract):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=0, le=9)]


class Dog(Contract):
    kind: Literal["dog"]
    name: str


class Tree(Contract):
    value: int
    children: list[Tree]


@dataclass
class Record:
    a: int


class Keys(TypedDict):
    a: int


class Ordinary(BaseModel):
    a: int


Code = NewType("Code", str)
Item = TypeVar("Item")


def one(annotation: Any, value: object, *, raw: str | None = None) -> tuple[str, object]:
    """Code and first finding (or the value) of a contract with the one field `v`."""
    contract = type("One", (Contract,), {"__annotations__": {"v": annotation}, "__module__": __name__})
    assert issubclass(contract, Contract)
    text = json.dumps(value) if raw is None else raw
    verdict = judge(contract, '{"v":' + text + "}", max_response_bytes=100_000)
    if isinstance(verdict, Rejected):
        return verdict.code.value, tuple(verdict.errors[0])
    return "accepted", vars(verdict.value)["v"]


@pytest.mark.parametrize(
    ("annotation", "value", "read"),
    [
        (str, "x", "x"),
        (Annotated[str, BlankAllowed()], "", ""),
        (Code, "x", "x"),
        (int, 5, 5),
        (int, -(2**53), -(2**53)),
        (int, 2**60, 2**60),
        (float, 1, 1.0),
        (float, 1.5, 1.5),
        (bool, True, True),
        (Decimal, 0.1, Decimal("0.1")),
        (Decimal | None, None, None),
        (DecimalText, "-0.10", Decimal("-0.10")),
        (date, "2024-02-29", date(2024, 2, 29)),
        (time, "23:59", time(23, 59)),
        (datetime, "2024-02-29T10:00:00", datetime(2024, 2, 29, 10)),
        (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
        (Colour, "red", Colour.RED),
        (Colour, 2, Colour.TWO),
        (Size, 1, Size.S),
        (Literal[1, True, "a", None], True, True),
        (Literal["a"] | Literal["b"], "b", "b"),
        (Literal[Colour.RED], "red", Colour.RED),
        (list[int], [1, 2], [1, 2]),
        (tuple[int, ...], [1, 2], (1, 2)),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict[Literal["x"], bool], {"x": False}, {"x": False}),
        (Cat | Dog, {"kind": "dog", "name": "Rex"}, Dog(kind="dog", name="Rex")),
        (list[Cat | Dog], [{"kind": "cat", "lives": 9}], [Cat(kind="cat", lives=9)]),
        (int | str | None, "x", "x"),
        (Tree, {"value": 1, "children": []}, Tree(value=1, children=[])),
        (None, None, None),
    ],
)
def test_what_a_contract_reads(annotation: Any, value: object, read: object) -> None:
    outcome = one(annotation, value)
    assert outcome == ("accepted", read)
    assert type(outcome[1]) is type(read)


@pytest.mark.parametrize(
    ("annotation", "value", "error_type"),
    [
        (int, 1.0, "int_type"),
        (int, True, "int_type"),
        (int, "1", "int_type"),
        (float, True, "float_type"),
        (float, "1", "float_type"),
        (bool, 1, "bool_type"),
        (bool, "true", "bool_type"),
        (str, 1, "string_type"),
        (Decimal, "1", "decimal_type"),
        (Decimal, True, "decimal_type"),
        (DecimalText, 1, "string_type"),
        (date, 0, "string_type"),
        (datetime, 0, "string_type"),
        (Literal[1], True, "literal_type"),
        (Literal[1], "1", "literal_type"),
        (Literal[True], 1, "literal_type"),
        (Literal["a"], None, "literal_type"),
        (Literal["a"], 1, "literal_type"),
        (Size, True, "enum_type"),
        (Size, "1", "enum_type"),
        (Colour, None, "enum_type"),
        (None, 0, "none_required"),
        (int | None, "1", "int_type"),
        (int | str, True, "union_type"),
        (list[int], {}, "list_type"),
        (dict[str, int], [], "dict_type"),
        (tuple[int, str], "1a", "tuple_type"),
        (Cat, [], "object_type"),
    ],
)
def test_a_wrong_type_is_never_coerced(annotation: Any, value: object, error_type: str) -> None:
    assert one(annotation, value) == ("schema_type_error", ("/v", error_type))


@pytest.mark.parametrize(
    ("annotation", "raw", "path", "error_type"),
    [
        (Literal[1], "1.0", "/v", "literal_error"),
        (Literal[1], "1e0", "/v", "literal_error"),
        (Size, "1.0", "/v", "enum_error"),
        (Literal["a"], '"A"', "/v", "literal_error"),
        (date, '"20240101"', "/v", "date_format"),
        (date, '"2024-W01-1"', "/v", "date_format"),
        (date, '"2023-02-29"', "/v", "date_format"),
        (datetime, '"2024-01-01"', "/v", "date-time_format"),
        (datetime, '"2024-01-01 10:00:00"', "/v", "date-time_format"),
        (datetime, '"0"', "/v", "date-time_format"),
        (time, '"25:00"', "/v", "time_format"),
        (UUID, '"12345678123456781234567812345678"', "/v", "uuid_format"),
        (DecimalText, '"1e5"', "/v", "decimal_format"),
        (DecimalText, '"01"', "/v", "decimal_format"),
        (DecimalText, '" 1"', "/v", "decimal_format"),
        (DecimalText, '"٣"', "/v", "decimal_format"),
        (DecimalText, '"NaN"', "/v", "decimal_format"),
        (DecimalText, f'"{"9" * 1001}"', "/v", "decimal_format"),
        (float, "1e400", "/v", "number_beyond_float"),
        (float, "-1e400", "/v", "number_beyond_float"),
        (float, "9007199254740993", "/v", "number_not_interoperable"),
        (float, "1e-400", "/v", "number_not_interoperable"),
        (float, "1" + "0" * 1200, "/v", "number_beyond_float"),
        (float, "0." + "3" * 1200, "/v", "number_not_interoperable"),
        (Decimal, "1e-99999999999999999999", "/v", "number_not_interoperable"),
        (float, "0e131072", "/v", "number_not_interoperable"),
        (float, "0.0e-16384", "/v", "number_not_interoperable"),
        (Decimal, "0e99999999999999999999", "/v", "number_not_interoperable"),
        (Decimal, "1e99999999999999999999", "/v", "number_beyond_float"),
        (int, "9007199254740993", "/v", "number_not_interoperable"),
        (int, "1" * 309, "/v", "number_not_interoperable"),
        (int, "1" * 310, "/v", "number_beyond_float"),
        (list[str], '["a", " "]', "/v/1", "text_blank"),
        (dict[str, str], '{"\u3164": "a"}', "/v/*", "text_blank"),
        (dict[str, str], '{"a": "\u3164"}', "/v/*", "text_blank"),
        (dict[str, str], '{"a\\u0000": "a"}', "/v/*", "text_not_storable"),
        (Annotated[list[int], Field(max_length=1)], "[1, 2]", "/v", "too_long"),
        (list[Annotated[int, Field(gt=1)]], "[2, 1]", "/v/1", "greater_than"),
        (dict[str, Annotated[int, Field(gt=1)]], '{"a": 1}', "/v/*", "greater_than"),
        (list[Annotated[str, Field(max_length=1)] | int], '["a", "ab"]', "/v/1", "string_too_long"),
        (list[Annotated[str, Field(max_length=1)] | Literal[1] | None], '["ab"]', "/v/0", "string_too_long"),
        (list[Annotated[int, Field(gt=1)]], "[" + "1," * 10_001 + "1]", "", "many_errors"),
        (tuple[int, str], "[1]", "/v", "too_short"),
        (tuple[int, str], '[1, "a", 2]', "/v", "too_long"),
        (Annotated[Decimal, Field(max_digits=3)], "12.34", "/v", "decimal_max_digits"),
        (Annotated[str, StringConstraints(pattern="^a")], '"b"', "/v", "string_pattern_mismatch"),
        (Cat | Dog, '{"kind": "cow", "lives": 1}', "/v/kind", "literal_error"),
        (Cat | Dog, '{"kind": "cat", "lives": 10}', "/v/lives", "less_than_equal"),
        (
            Annotated[Cat | Dog, Field(discriminator="kind")],
            '{"kind": "cat", "lives": 10}',
            "/v/lives",
            "less_than_equal",
        ),
        (Tree, '{"value": 1, "children": [{"value": 2}]}', "/v/children/0/children", "missing"),
    ],
)
def test_values_that_do_not_hold(annotation: Any, raw: str, path: str, error_type: str) -> None:
    assert one(annotation, None, raw=raw) == ("schema_validation_error", (path, error_type))


def test_the_nearest_contract_of_a_union_speaks() -> None:
    assert one(Cat | Dog, {"kind": "cat", "lives": "9"}) == ("schema_type_error", ("/v/lives", "int_type"))
    assert one(Cat | Dog, {"kind": "dog", "lives": 9}) == ("schema_extra_field", ("/v/*", "extra_forbidden"))


def test_a_recursive_contract_is_bounded() -> None:
    def nested(depth: int) -> str:
        return '{"value":1,"children":[' * depth + "]}" * depth

    assert isinstance(judge(Tree, nested(45)), Accepted)
    for depth in (60, 100_000):
        verdict = judge(Tree, nested(depth), max_response_bytes=10_000_000)
        assert isinstance(verdict, Rejected)
        assert verdict.code.value == "schema_validation_error"
        assert verdict.errors[0].type == "nesting_too_deep"


def define(annotation: Any = int, *, config: ConfigDict | None = None, **body: object) -> Callable[[], type]:
    space: dict[str, object] = {"__annotations__": {"a": annotation}, "__module__": __name__, **body}
    if config is not None:
        space["model_config"] = config
    return lambda: type("Wrong", (Contract,), space)


@field_validator("a", mode="before")
def looks_first(_cls: type, value: object) -> object:
    return value


@model_validator(mode="wrap")
def goes_around(_cls: type, value: object, handler: Callable[[object], object]) -> object:
    return handler(value)


@pytest.mark.parametrize(
    ("definition", "says"),
    [
        (define(a=1), "has a default"),
        (define(a=Field(default_factory=int)), "has a default"),
        (define(int | None, a=None), "has a default"),
        (define(Record), "Record is not a Contract"),
        (define(Keys), "Keys is not a Contract"),
        (define(Ordinary), "Ordinary is not a Contract"),
        (define(list[Ordinary]), "Ordinary is not a Contract"),
        (define(Any), "not supported"),
        (define(object), "not supported"),
        (define(bytes), "not supported"),
        (define(set[int]), "not supported"),
        (define(SecretStr), "not supported"),
        (define(FutureDate), "not supported"),
        (define(list), "not supported"),
        (define(dict[int, str]), "keys of a dict"),
        (define(str | date), "two members"),
        (define(int | float), "two members"),
        (define(str | Literal["a"]), "two members"),
        (define(Cat | dict[str, int]), "two members"),
        (define(Annotated[str, StringConstraints(strip_whitespace=True)]), "never changed"),
        (define(Annotated[str, BeforeValidator(str)]), "may repair"),
        (define(a=Field(validation_alias=AliasChoices("x", "y"))), "alias"),
        (define(config=ConfigDict(extra="allow")), "model_config extra"),
        (define(config=ConfigDict(strict=False)), "model_config strict"),
        (define(config=ConfigDict(str_strip_whitespace=True)), "model_config str_strip_whitespace"),
        (define(looks_first=looks_first), "before validator"),
        (define(goes_around=goes_around), "wrap validator"),
        (define(model_post_init=lambda _self, _context: None), "does nothing of its own"),
    ],
)
def test_a_contract_that_breaks_the_rules_is_refused_at_definition(
    definition: Callable[[], type], says: str
) -> None:
    with pytest.raises(TypeError, match=says):
        definition()


def test_class_keywords() -> None:
    class Scored(Contract, confidence="second", label_field="b", max_response_bytes=10):
        first: Confidence
        second: Confidence
        a: Literal["x"]
        b: Literal["y"]

    plan = plan_of(Scored)
    assert (plan.confidence_field, plan.label_field, plan.max_response_bytes) == ("second", "b", 10)

    class Heir(Scored):
        more: str

    assert plan_of(Heir).confidence_field == "second"
    assert plan_of(Heir).max_response_bytes == 10
    for keywords, says in (
        ({"confidence": "a"}, "annotated Confidence"),
        ({"label_field": "zz"}, "not one of its fields"),
        ({"insufficient_evidence": {"zz": 1}}, "no field"),
        ({"insufficient_evidence": {"a": "zz"}}, "cannot have"),
        ({"max_response_bytes": 0}, "max_response_bytes"),
    ):
        with pytest.raises(TypeError, match=says):
            type("Wrong", (Scored,), {"__module__": __name__}, **keywords)


def test_several_confidence_fields_must_be_told_apart() -> None:
    with pytest.raises(TypeError, match="name one"):

        class Two(Contract):
            first: Confidence
            second: Confidence


def test_what_assay_works_out() -> None:
    assert plan_of(Ticket).label_field == "category"
    assert plan_of(Ticket).confidence_field == "confidence"
    assert plan_of(Ticket).sensitive_paths == ("/reason",)
    assert plan_of(Receipt).label_field is None
    assert plan_of(Receipt).confidence_field is None
    assert plan_of(Receipt).sensitive_paths == ("/company", "/address", "/lines/*/description")
    assert plan_of(Receipt).by_contract.keys() == {Receipt, LineItem}

    class Free(Contract):
        answer: str
        confidence: Confidence | None
        reason: Reason

    assert plan_of(Free).label_field == "answer"
    assert plan_of(Free).confidence_field == "confidence"
    verdict = judge(Free, '{"answer":"x","confidence":null,"reason":"y"}')
    assert isinstance(verdict, Accepted)
    assert verdict.confidence is None


def test_sensitive_texts_leave_the_plain_form() -> None:
    class Mixed(Contract):
        tags: Annotated[list[str], Plain()]
        notes: list[str]
        free: dict[str, int]
        named: dict[Literal["a", "b"], int]
        told: dict[Literal["a"], str]
        either: str | int
        other: str | int
        pair: tuple[int, str]
        inner: list[Cat | Dog]

    whole = {
        "tags": ["t"], "notes": ["n"], "free": {"k": 1}, "named": {"b": 2}, "told": {"a": "s"}, "either": "s",
        "other": 3, "pair": [1, "s"], "inner": [{"kind": "dog", "name": "Rex"}, {"kind": "cat", "lives": 1}],
    }  # fmt: skip
    verdict = judge(Mixed, json.dumps(whole))
    assert isinstance(verdict, Accepted)
    assert json.loads(verdict.label_json) == whole
    assert json.loads(verdict.plain_json) == {
        "tags": ["t"],
        "named": {"b": 2},
        "other": 3,
        "inner": [{"kind": "dog"}, {"kind": "cat", "lives": 1}],
    }


def test_an_alias_is_the_key_in_json_and_in_paths() -> None:
    class Renamed(Contract):
        total: Annotated[int, Field(ge=0)] = Field(alias="Total/net~1")

    good = judge(Renamed, '{"Total/net~1": 3}')
    assert isinstance(good, Accepted)
    assert vars(good.value) == {"total": 3}
    for raw, path in (("-1", "/Total~1net~01"), ('"3"', "/Total~1net~01")):
        bad = judge(Renamed, '{"Total/net~1": ' + raw + "}")
        assert isinstance(bad, Rejected)
        assert bad.errors[0].path == path
    by_name = judge(Renamed, '{"total": 3}')
    assert isinstance(by_name, Rejected)
    assert by_name.code.value == "schema_extra_field"


def test_a_generic_contract_is_checked_when_it_is_filled_in() -> None:
    class Box(Contract, Generic[Item]):
        content: Item

    assert isinstance(judge(Box[int], '{"content": 1}'), Accepted)
    with pytest.raises(TypeError, match="not supported"):
        _ = Box[bytes]


def refuse(_value: str) -> str:
    raise ValueError("planted-text")


def change(value: str) -> str:
    return value + "!"


def break_down(_value: str) -> str:
    raise KeyError("planted-text")


@pytest.mark.parametrize(
    ("function", "code", "error_type"),
    [
        (refuse, "schema_validation_error", "value_error"),
        (change, "unexpected_parse_error", "value_changed"),
        (break_down, "unexpected_parse_error", "KeyError"),
    ],
)
def test_validators_look_and_do_not_repair(
    function: Callable[[str], str], code: str, error_type: str
) -> None:
    class Validated(Contract):
        text: Annotated[str, AfterValidator(function)]

    verdict = judge(Validated, '{"text":"x"}')
    assert isinstance(verdict, Rejected)
    assert (verdict.code.value, verdict.errors[0].type) == (code, error_type)
    assert "planted" not in repr(verdict)


def test_a_contract_whose_annotations_cannot_be_resolved_is_a_defect_not_a_crash() -> None:
    unresolved = type(
        "Unresolved", (Contract,), {"__annotations__": {"a": "Nowhere"}, "__module__": __name__}
    )
    assert issubclass(unresolved, Contract)
    verdict = judge(unresolved, "{}")
    assert isinstance(verdict, Rejected)
    assert verdict.code.value == "unexpected_parse_error"
