"""What goes wrong in an extraction: content faults of answers with amounts, lines and quotes.

An answer is spoilt in one place, drawn among those where the fault can happen; where there is none, it stays
as it is and the fault did not happen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Final, TypeAlias

from assay.vendor.chance import Draws
from assay.vendor.gold import Json, JsonObject

Path: TypeAlias = "tuple[str | int, ...]"
Spoil: TypeAlias = Callable[[JsonObject, Draws, str], str | None]

SUMMED: Final = frozenset(
    {
        "amount",
        "gross",
        "gross_total",
        "line_total",
        "net",
        "net_total",
        "subtotal",
        "tax",
        "tax_total",
        "total",
    }
)
"""Keys of amounts that add up, or of objects whose `value` does."""
QUOTES: Final = frozenset({"evidence", "quote"})
_AMOUNT: Final = re.compile(r"-?[0-9]+\.[0-9]{2,}")
_ERRORS: Final = (Decimal("1.00"), Decimal("-1.00"), Decimal("10.00"), Decimal("90.00"))
_BETWEEN: Final = ("\n", "\n\n", "\n\nFinal answer:\n")
_SPACES: Final = re.compile(r"\s+")


def spoilt(fault: str, answer: JsonObject, draws: Draws, text: str) -> str | None:
    """The reply's text with an extraction fault about the known `text`; None where it cannot happen."""
    return _FAULTS[fault](answer, draws, text)


def _draft(answer: JsonObject, draws: Draws, text: str) -> str | None:
    """Two objects instead of one: a draft that lacks something, before the final one or after it."""
    places = list(_fields(answer))
    draft = _without(answer, draws.one_of(places)) if places else answer
    objects = [_text(draft), _text(answer)]
    if draws.unit() < 0.5:
        objects.reverse()
    return draws.one_of(_BETWEEN).join(objects)


def _dropped_field(answer: JsonObject, draws: Draws, text: str) -> str | None:
    """One field is left out, at any depth."""
    places = list(_fields(answer))
    return _text(_without(answer, draws.one_of(places))) if places else None


def _mis_summed(answer: JsonObject, draws: Draws, text: str) -> str | None:
    """One amount of a sum is off by 1, 10 or 90."""
    places = [(path, value) for path, value in _leaves(answer) if _is_summed(path, value)]
    if not places:
        return None
    path, value = draws.one_of(places)
    wrong = Decimal(str(value)) + draws.one_of(_ERRORS)
    return _text(_with(answer, path, f"{wrong:f}" if isinstance(value, str) else float(wrong)))


def _string_number(answer: JsonObject, draws: Draws, text: str) -> str | None:
    """One number is written as a string; a confidence only where there is no other number."""
    numbers = [
        (path, value)
        for path, value in _leaves(answer)
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    places = [found for found in numbers if found[0][-1] != "confidence"] or numbers
    if not places:
        return None
    path, value = draws.one_of(places)
    return _text(_with(answer, path, json.dumps(value)))


def _wrong_quote(answer: JsonObject, draws: Draws, text: str) -> str | None:
    """One quote has another digit or letter than the text, and so occurs nowhere in it."""
    places = [(path, value) for path, value in _leaves(answer) if _is_quote(path) and isinstance(value, str)]
    if not places:
        return None
    path, value = draws.one_of(places)
    quote, known = str(value), _SPACES.sub(" ", text)
    changed = [
        f"{quote[:place]}{other}{quote[place + 1 :]}"
        for place, char in enumerate(quote)
        if char.isalnum()
        for other in ("4", "7", "e")
        if other != char
    ]
    absent = [one for one in changed if _SPACES.sub(" ", one) not in known]
    return _text(_with(answer, path, draws.one_of(absent) if absent else f"{quote} (sic)"))


_FAULTS: Final[dict[str, Spoil]] = {
    "draft": _draft,
    "dropped_field": _dropped_field,
    "mis_summed": _mis_summed,
    "string_number": _string_number,
    "wrong_quote": _wrong_quote,
}
EXTRACTION: Final = frozenset(_FAULTS)


def _is_summed(path: Path, value: Json) -> bool:
    keys = [step for step in path if isinstance(step, str)]
    named = keys[-2] if keys[-1] == "value" and len(keys) > 1 else keys[-1]
    if named not in SUMMED or isinstance(value, bool):
        return False
    return isinstance(value, float) or (isinstance(value, str) and _AMOUNT.fullmatch(value) is not None)


def _is_quote(path: Path) -> bool:
    return any(step in QUOTES for step in path[-2:])


def _fields(value: Json, path: Path = ()) -> Iterator[Path]:
    """The place of every field of every object, in order."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from _fields(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _fields(item, (*path, index))


def _leaves(value: Json, path: Path = ()) -> Iterator[tuple[Path, Json]]:
    """Everything that is neither object nor array, with its place."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _with(answer: JsonObject, path: Path, value: Json) -> JsonObject:
    """A copy with another value at a place."""
    copy, holder = _copied(answer, path)
    if isinstance(holder, dict):
        holder[str(path[-1])] = value
    elif isinstance(path[-1], int):
        holder[path[-1]] = value
    return copy


def _without(answer: JsonObject, path: Path) -> JsonObject:
    """A copy that lacks a field."""
    copy, holder = _copied(answer, path)
    if isinstance(holder, dict):
        del holder[str(path[-1])]
    return copy


def _copied(answer: JsonObject, path: Path) -> tuple[JsonObject, JsonObject | list[Json]]:
    """A copy of the answer, and in it the object or array that holds the place."""
    copy: JsonObject = json.loads(_text(answer))
    holder: JsonObject | list[Json] = copy
    for step in path[:-1]:
        inner: Json = None
        if isinstance(holder, dict):
            inner = holder[str(step)]
        elif isinstance(step, int):
            inner = holder[step]
        if isinstance(inner, (dict, list)):
            holder = inner
    return copy, holder


def _text(answer: JsonObject) -> str:
    return json.dumps(answer, ensure_ascii=False)
