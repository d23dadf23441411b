"""Extractions compared with gold, field by field and document by document.

A field is a place of the contract, lines of one array together: `/lines/*/amount`. In each document it is

    a match      gold and the answer hold the same value
    a mismatch   both hold a value, and not the same
    missing      gold holds a value, the answer none; of a dead letter every value is missing
    spurious     the answer holds a value, gold says that there is none

and where neither holds one, nothing is counted. What gold does not mention is not compared; gold says that
there is no value by null or by an empty text. With these counts, over all documents,

    precision = matches / (matches + mismatches + spurious)
    recall    = matches / (matches + mismatches + missing)
    F1        = 2 matches / (2 matches + 2 mismatches + missing + spurious)

A quotient with a denominator of 0 has no value (None). All are counted twice: exactly as written, and under
the normalisation of `compared_values`. A document is right when nothing in it is wrong or missing.

Lines of an array are paired in order, by the alignment with most matching values under the normalisation;
both countings use the same pairs. Among equally good alignments one with more pairs is taken, which changes
neither precision nor recall: a mismatch counts in them as a missing and a spurious value. Arrays of more than
200 lines are paired by position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from assay.domain.compared_values import DateOrder, FieldKind
from assay.domain.field_comparison import Compared, Comparison, Outcome
from assay.domain.json_text import Json


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of one field, or of all together."""

    matches: int = 0
    mismatches: int = 0
    missing: int = 0
    spurious: int = 0

    @property
    def precision(self) -> float | None:
        return _ratio(self.matches, self.matches + self.mismatches + self.spurious)

    @property
    def recall(self) -> float | None:
        return _ratio(self.matches, self.matches + self.mismatches + self.missing)

    @property
    def f1(self) -> float | None:
        wrong = 2 * self.mismatches + self.missing + self.spurious
        return _ratio(2 * self.matches, 2 * self.matches + wrong)


@dataclass(frozen=True, slots=True)
class FieldScore:
    """One field, counted exactly and under the normalisation."""

    path: str
    kind: FieldKind
    exact: Tally
    normalised: Tally


@dataclass(frozen=True, slots=True)
class FieldEvaluation:
    """The comparison. `exact` and `normalised` count all fields together.

    `right_exact` and `right_normalised` are documents with every compared field right. `unknown` are places
    of gold that the contract does not have: they are not compared.
    """

    documents: int
    without_label: int
    right_exact: int
    right_normalised: int
    fields: tuple[FieldScore, ...]
    exact: Tally
    normalised: Tally
    unknown: tuple[str, ...]


class Pair(NamedTuple):
    """Gold and the answer of one document; None for an answer that was refused."""

    gold: Json
    found: Json


_COUNTS: Final = (Outcome.MATCH, Outcome.MISMATCH, Outcome.MISSING, Outcome.SPURIOUS)


def score_fields(
    pairs: Iterable[Pair],
    schema: Mapping[str, object],
    *,
    left_out: frozenset[str] = frozenset(),
    dates: DateOrder = DateOrder.YMD,
) -> FieldEvaluation:
    """Compares documents. `schema` is the contract's, `left_out` pointers of fields that are not compared.

    Raises `ConfigurationError` where gold has another shape than the contract.
    """
    kept = list(pairs)
    comparison = Comparison(schema, left_out, dates, (pair.gold for pair in kept))
    exact: Counter[tuple[str, Outcome]] = Counter()
    normal: Counter[tuple[str, Outcome]] = Counter()
    kinds: dict[str, FieldKind] = {}
    right_exact = right_normal = 0
    for pair in kept:
        found = comparison.document(pair.gold, pair.found)
        for one in found:
            kinds.setdefault(one.path, one.kind)
            exact[one.path, one.exact] += 1
            normal[one.path, one.normalised] += 1
        right_exact += _is_right(pair, found, exact=True)
        right_normal += _is_right(pair, found, exact=False)
    paths = [path for path in comparison.order if path in kinds]
    return FieldEvaluation(
        documents=len(kept),
        without_label=sum(pair.found is None for pair in kept),
        right_exact=right_exact,
        right_normalised=right_normal,
        fields=tuple(
            FieldScore(path, kinds[path], _tally(exact, [path]), _tally(normal, [path])) for path in paths
        ),
        exact=_tally(exact, paths),
        normalised=_tally(normal, paths),
        unknown=comparison.unknown,
    )


def _is_right(pair: Pair, found: Iterable[Compared], *, exact: bool) -> bool:
    return pair.found is not None and all(
        (one.exact if exact else one.normalised) is Outcome.MATCH for one in found
    )


def _tally(counts: Counter[tuple[str, Outcome]], paths: Iterable[str]) -> Tally:
    listed = list(paths)
    return Tally(*(sum(counts[path, outcome] for path in listed) for outcome in _COUNTS))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
