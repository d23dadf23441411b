"""Marks of an annotation that would silently loosen a contract, or make it accept nothing."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import Field, InstanceOf, Json, PrivateAttr, SkipValidation

from assay import Accepted, Confidence, Contract, Reason, judge


def define(annotation: Any, value: object = ..., **body: object) -> Callable[[], type[Contract]]:
    space: dict[str, object] = {"__annotations__": {"a": annotation}, "__module__": __name__, **body}
    if value is not ...:
        space["a"] = value
    return lambda: type("Marked", (Contract,), space)


@pytest.mark.parametrize(
    ("definition", "attribute"),
    [
        (define(Reason, Field(max_length=50)), "max_length"),
        (define(Confidence, Field(ge=0.7)), "ge"),
        (define(Annotated[list[int], Field(max_length=3)], Field(max_length=1)), "max_length"),
        (define(Annotated[Decimal, Field(decimal_places=3)], Field(decimal_places=1)), "decimal_places"),
        (define(Annotated[str, Field(pattern="a")], Field(pattern="b")), "pattern"),
        (define(Annotated[int, Field(lt=1), Field(lt=5)]), "lt"),
    ],
)
def test_a_constraint_that_a_looser_one_replaces_is_refused(
    definition: Callable[[], type[Contract]], attribute: str
) -> None:
    with pytest.raises(TypeError, match=rf"Marked\.a: {attribute} is given twice"):
        definition()


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (Annotated[Confidence, Field(ge=0.7)], "0.7", "0.6"),
        (Annotated[Reason, Field(max_length=2)], '"ab"', '"abc"'),
        (Annotated[int, Field(gt=0), Field(gt=0)], "1", "0"),
    ],
)
def test_a_stricter_constraint_given_last_holds(annotation: Any, good: str, bad: str) -> None:
    contract = define(annotation)()
    assert isinstance(judge(contract, f'{{"a":{good}}}'), Accepted)
    assert not isinstance(judge(contract, f'{{"a":{bad}}}'), Accepted)


@pytest.mark.parametrize("annotation", [Json[list[int]], SkipValidation[int], InstanceOf[int]])
def test_marks_that_replace_the_reading_are_refused(annotation: Any) -> None:
    with pytest.raises(TypeError, match="not supported; declare the type itself"):
        define(annotation)()


def test_a_private_attribute_is_named() -> None:
    with pytest.raises(TypeError, match=r"Marked\._x: a contract has no private attributes"):
        define(int, _x=PrivateAttr(default=1))()
