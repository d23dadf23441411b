"""One document's answer beside its gold, value by value; what counts as what is in `field_scores`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from assay.domain.compared_values import DateOrder, FieldKind, is_nothing, normalised, written
from assay.domain.failures import ConfigurationError
from assay.domain.field_schema import Schema, as_schema, is_array, is_object, kind_of, place
from assay.domain.findings import ANY_KEY, pointer
from assay.domain.json_text import Json

_MOST_ALIGNED: Final = 200
# The field of an object that a bare value in gold stands for: `"total": "12.00"` for {"value": "12.00", …}.
_VALUE: Final = "value"

Trail = tuple[str, ...]


class Outcome(StrEnum):
    """What became of one value."""

    MATCH = "match"
    MISMATCH = "mismatch"
    MISSING = "missing"
    SPURIOUS = "spurious"


class Compared(NamedTuple):
    """One value, compared in both ways."""

    path: str
    kind: FieldKind
    exact: Outcome
    normalised: Outcome


class Comparison:
    """Compares documents under one contract. `golds` are all of them: they say which fields are compared."""

    def __init__(
        self, schema: Mapping[str, object], left_out: frozenset[str], dates: DateOrder, golds: Iterable[Json]
    ) -> None:
        self._root = schema
        self._left_out = left_out
        self._dates = dates
        self._named: dict[str, None] = {}
        self._unknown: dict[str, None] = {}
        for gold in golds:
            self._name(schema, gold, ())

    @property
    def order(self) -> tuple[str, ...]:
        """Pointers of all fields that gold mentions, in the order in which it does."""
        return tuple(self._named)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Pointers of gold that the contract does not have."""
        return tuple(self._unknown)

    def document(self, gold: Json, found: Json) -> list[Compared]:
        """Every value of one document that is there or should be."""
        return list(self._compare(self._root, gold, found, ()))

    def _name(self, schema: Schema, gold: Json, trail: Trail) -> None:
        """Notes which fields gold mentions, and refuses gold of another shape than the contract's."""
        path = pointer([*trail])
        if path in self._left_out:
            return
        here = place(schema, self._root, gold)
        gold = _opened(here, gold)
        if isinstance(gold, dict) and is_object(here):
            for key, item in gold.items():
                inner, step = _property(here, key)
                if inner is None:
                    self._unknown.setdefault(pointer([*trail, step]))
                else:
                    self._name(inner, item, (*trail, step))
        elif isinstance(gold, list) and is_array(here):
            for index, item in enumerate(gold):
                self._name(_item(here, index), item, (*trail, ANY_KEY))
        elif is_nothing(gold) or not (isinstance(gold, dict | list) or is_object(here) or is_array(here)):
            self._named.setdefault(path)
        else:
            raise ConfigurationError(
                f"The gold has another shape than the contract at {path or 'its top'}; write it as the "
                "contract does, and leave out what is not to be compared."
            )

    def _compare(self, schema: Schema, gold: Json, found: Json, trail: Trail) -> Iterator[Compared]:
        path = pointer([*trail])
        if path in self._left_out or (is_nothing(gold) and is_nothing(found)):
            return
        here = place(schema, self._root, found if is_nothing(gold) else gold)
        gold = _opened(here, gold)
        if is_object(here):
            yield from self._objects(here, gold, found, trail)
        elif is_array(here):
            golds = gold if isinstance(gold, list) else []
            yield from self._arrays(here, golds, found if isinstance(found, list) else [], trail)
        elif path in self._named:
            yield self._value(path, kind_of(here), gold, found)

    def _objects(self, here: Schema, gold: Json, found: Json, trail: Trail) -> Iterator[Compared]:
        golds = gold if isinstance(gold, dict) else {}
        others = found if isinstance(found, dict) else {}
        below = pointer([*trail]) + "/"
        if not golds and not any(name.startswith(below) for name in self._named):
            # Gold never says more than that there is nothing here.
            if below[:-1] in self._named and others:
                yield Compared(below[:-1], FieldKind.TEXT, Outcome.SPURIOUS, Outcome.SPURIOUS)
            return
        for key in dict.fromkeys([*golds, *others]):
            inner, step = _property(here, key)
            is_silent = isinstance(gold, dict) and key not in golds and step != ANY_KEY
            if inner is not None and not is_silent:
                yield from self._compare(inner, golds.get(key), others.get(key), (*trail, step))

    def _arrays(self, here: Schema, golds: list[Json], found: list[Json], trail: Trail) -> Iterator[Compared]:
        within = (*trail, ANY_KEY)
        for left, right in self._aligned(here, golds, found, within):
            index = right if left is None else left
            gold = None if left is None else golds[left]
            other = None if right is None else found[right]
            yield from self._compare(_item(here, index or 0), gold, other, within)

    def _aligned(
        self, here: Schema, golds: list[Json], found: list[Json], within: Trail
    ) -> list[tuple[int | None, int | None]]:
        """Pairs of places, in order; None where one side has no counterpart."""
        if "prefixItems" in here or max(len(golds), len(found)) > _MOST_ALIGNED:
            longest = max(len(golds), len(found))
            return [(n if n < len(golds) else None, n if n < len(found) else None) for n in range(longest)]
        weight = min(len(golds), len(found)) + 1
        worth = [
            [
                1
                + weight
                * sum(
                    one.normalised is Outcome.MATCH
                    for one in self._compare(_item(here, 0), gold, other, within)
                )
                for other in found
            ]
            for gold in golds
        ]
        return _best_path(worth, len(golds), len(found))

    def _value(self, path: str, kind: FieldKind, gold: Json, found: Json) -> Compared:
        if is_nothing(gold) or is_nothing(found):
            outcome = Outcome.SPURIOUS if is_nothing(gold) else Outcome.MISSING
            return Compared(path, kind, outcome, outcome)
        exact = written(gold) == written(found)
        same = exact or normalised(kind, gold, self._dates) == normalised(kind, found)
        return Compared(path, kind, _outcome(exact), _outcome(same))


def _outcome(same: bool) -> Outcome:
    return Outcome.MATCH if same else Outcome.MISMATCH


def _opened(here: Schema, gold: Json) -> Json:
    """A bare value in gold stands for the `value` of an object that has one."""
    bare = not is_nothing(gold) and not isinstance(gold, dict | list)
    return {_VALUE: gold} if bare and _VALUE in as_schema(here.get("properties")) else gold


def _property(here: Schema, key: str) -> tuple[Schema | None, str]:
    """The schema of a key, None where there is no such field, and the key as paths show it."""
    properties = as_schema(here.get("properties"))
    if key in properties:
        return as_schema(properties[key]), key
    rest = here.get("additionalProperties")
    return (rest, ANY_KEY) if isinstance(rest, Mapping) else (None, key)


def _item(here: Schema, index: int) -> Schema:
    """The schema of an array's place."""
    places = here.get("prefixItems")
    if isinstance(places, list):
        return as_schema(places[index]) if index < len(places) else {}
    return as_schema(here.get("items"))


def _best_path(worth: list[list[int]], rows: int, columns: int) -> list[tuple[int | None, int | None]]:
    """The pairs, in order, whose worth adds up to most; the rest of both sides stands alone."""
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(rows - 1, -1, -1):
        for column in range(columns - 1, -1, -1):
            paired = worth[row][column] + best[row + 1][column + 1]
            best[row][column] = max(paired, best[row + 1][column], best[row][column + 1])
    row = column = 0
    pairs: list[tuple[int | None, int | None]] = []
    while row < rows and column < columns:
        if best[row][column] == worth[row][column] + best[row + 1][column + 1]:
            pairs.append((row, column))
            row, column = row + 1, column + 1
        elif best[row][column] == best[row + 1][column]:
            pairs.append((row, None))
            row += 1
        else:
            pairs.append((None, column))
            column += 1
    pairs += [(rest, None) for rest in range(row, rows)]
    return pairs + [(None, rest) for rest in range(column, columns)]
