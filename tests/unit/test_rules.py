"""Business rules: what they may do, where they run, and what a rejection says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from assay import Accepted, Contract, Rejected, judge, rule
from assay.domain.rules import rules_of


def outcome(contract: type[Contract], text: str) -> tuple[str, list[tuple[str, str]]]:
    verdict = judge(contract, text)
    if isinstance(verdict, Accepted):
        return "accepted", []
    return verdict.code.value, [(error.path, error.type) for error in verdict.errors]


def ruled(body: Callable[[Any], object], fields: tuple[str, ...] = ()) -> type[Contract]:
    def checked(self: object) -> object:
        return body(self)

    space = {
        "__annotations__": {"a": int},
        "__module__": __name__,
        "checked": rule(version=3, fields=fields)(checked),
    }
    made = type("Ruled", (Contract,), space)
    assert issubclass(made, Contract)
    return made


def raising(error: BaseException) -> Callable[[Any], object]:
    def body(_self: object) -> object:
        raise error

    return body


@pytest.mark.parametrize("answer", [None, True])
def test_a_rule_that_holds(answer: object) -> None:
    assert outcome(ruled(lambda _self: answer), '{"a":1}') == ("accepted", [])


@pytest.mark.parametrize(
    "body", [lambda _self: False, raising(ValueError("planted")), raising(AssertionError("planted"))]
)
def test_a_rule_that_does_not_hold(body: Callable[[Any], object]) -> None:
    assert outcome(ruled(body), '{"a":1}') == ("semantic_invalid", [("", "checked@3")])
    assert outcome(ruled(body, ("a",)), '{"a":1}') == ("semantic_invalid", [("/a", "checked@3")])
    assert outcome(ruled(body), '{"a":"1"}')[0] == "schema_type_error"


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (raising(KeyError("planted")), "KeyError"),
        (raising(RecursionError()), "RecursionError"),
        (raising(MemoryError()), "MemoryError"),
        (raising(type("planted", (Exception,), {})()), "defect"),
        (lambda _self: "planted", "defect"),
        (lambda _self: 0, "defect"),
    ],
)
def test_anything_else_is_a_defect(body: Callable[[Any], object], name: str) -> None:
    assert outcome(ruled(body), '{"a":1}') == ("unexpected_parse_error", [("", name)])


def test_rules_of_contracts_inside_run_first_and_say_where() -> None:
    class Line(Contract):
        amount: int

        @rule(version=1, fields=("amount",))
        def positive(self) -> bool:
            return self.amount > 0

    class Order(Contract):
        lines: list[Line]
        named: dict[str, Line]
        best: Line | None

        @rule(version=2, name="has.lines")
        def has_lines(self) -> bool:
            return bool(self.lines)

    line, bad = '{"amount":1}', '{"amount":0}'
    text = f'{{"lines":[{line},{bad}],"named":{{"planted":{bad}}},"best":{bad}}}'
    assert outcome(Order, text) == (
        "semantic_invalid",
        [
            ("/lines/1/amount", "positive@1"),
            ("/named/*/amount", "positive@1"),
            ("/best/amount", "positive@1"),
        ],
    )
    assert outcome(Order, '{"lines":[],"named":{},"best":null}') == (
        "semantic_invalid",
        [("", "has.lines@2")],
    )


def test_rules_are_inherited_and_replaced() -> None:
    class Base(Contract):
        a: int

        @rule(version=1)
        def first(self) -> bool:
            return self.a > 0

        @rule(version=1)
        def second(self) -> bool:
            return self.a < 9

    class Heir(Base):
        @rule(version=2)
        def first(self) -> bool:
            return self.a > 5

    assert [(found.name, found.version) for found in rules_of(Heir)] == [("first", 2), ("second", 1)]
    assert outcome(Heir, '{"a":3}') == ("semantic_invalid", [("", "first@2")])
    assert outcome(Base, '{"a":3}') == ("accepted", [])


def test_mistakes_are_told_at_definition() -> None:
    wrong: Any
    for wrong in (0, True, "1"):
        with pytest.raises(TypeError, match="version="):
            rule(version=wrong)
    with pytest.raises(TypeError, match="tuple of field names"):
        rule(version=1, fields=cast(Any, "total"))
    with pytest.raises(TypeError, match="letters, digits"):
        rule(version=1, name="a b")(lambda self: True)
    with pytest.raises(TypeError, match="ordinary method"):
        rule(version=1)(staticmethod(len))
    with pytest.raises(TypeError, match="names b, which is no field"):
        ruled(lambda _self: True, ("b",))

    async def later(_self: object) -> bool:
        return True

    with pytest.raises(TypeError, match="ordinary method"):
        rule(version=1)(later)
    with pytest.raises(TypeError, match="two rules are named same"):

        class Twice(Contract):
            a: int

            @rule(version=1, name="same")
            def one(self) -> bool:
                return True

            @rule(version=1, name="same")
            def two(self) -> bool:
                return True


def test_a_rejection_for_a_rule_is_not_corrected() -> None:
    verdict = judge(ruled(lambda _self: False), '{"a":1}')
    assert isinstance(verdict, Rejected)
    assert (verdict.kind.value, verdict.correctable, verdict.retryable) == ("semantic", False, False)
