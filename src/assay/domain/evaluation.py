"""Labels compared with gold: accuracy, precision, recall and F1, over a label set that the result states.

Per class, with tp, predicted and support counted over all pairs:

    precision = tp / predicted      recall = tp / support      F1 = 2 tp / (predicted + support)

Averages are the mean of the classes (`macro`) and their mean weighted by support (`weighted`); the averaged
F1 is the mean of the classes' F1 scores, not the F1 of mean precision and mean recall, which is another
number (both are in use; see Opitz and Burst, "Macro F1 and Macro F1", 2019). All sums are exact fractions,
rounded once to a float at the end.

A quotient with a denominator of 0 (the precision of a class that was never predicted) has no value; both
conventions in use are reported side by side, counting it as 0 and as 1. They differ only where
`undefined` is not empty.

A prediction outside the label set and a missing one (a dead letter) are counted apart and always wrong.
They stay in every denominator they belong to: accuracy, and the recall of the gold class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class ClassScore:
    """One class. A score is None where its denominator is 0."""

    label: str
    support: int
    predicted: int
    correct: int
    precision: float | None
    recall: float | None
    f1: float | None


@dataclass(frozen=True, slots=True)
class Averages:
    """Averages over the label set; None for an empty label set (or, weighted, for no support at all)."""

    precision: float | None
    recall: float | None
    mean_f1: float | None


@dataclass(frozen=True, slots=True)
class AveragesByConvention:
    """The same averages with a quotient without value counted as 0 and counted as 1."""

    undefined_as_0: Averages
    undefined_as_1: Averages


@dataclass(frozen=True, slots=True)
class ConfusionCell:
    """How often `gold` was answered with `predicted` (None: no answer)."""

    gold: str
    predicted: str | None
    count: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The comparison. `labels` is the label set that all averages are taken over.

    `missing` counts pairs without a prediction, `outside` predictions that are not in `labels`, and
    `gold_outside` gold labels that are not (a contract that cannot say what gold says). All are wrong.
    `undefined` names the classes without a precision or a recall. `confusion` is sorted by gold, then
    prediction. The weighted recall equals `accuracy` where `gold_outside` is empty.
    """

    pairs: int
    correct: int
    accuracy: float | None
    missing: int
    outside: Mapping[str, int]
    gold_outside: Mapping[str, int]
    labels: tuple[str, ...]
    classes: tuple[ClassScore, ...]
    undefined: tuple[str, ...]
    macro: AveragesByConvention
    weighted: AveragesByConvention
    confusion: tuple[ConfusionCell, ...]


def evaluate(pairs: Iterable[tuple[str, str | None]], labels: Sequence[str] | None = None) -> Evaluation:
    """Compares (gold, predicted) pairs; `predicted` is None where there is no answer.

    `labels` is the label set, in the order of the result (duplicates count once); by default the gold
    labels that occur, sorted.
    """
    cells = Counter(pairs)
    stated = (
        tuple(dict.fromkeys(labels)) if labels is not None else tuple(sorted({gold for gold, _ in cells}))
    )
    inside = frozenset(stated)
    total = sum(cells.values())
    tallies = _tally(cells, stated)
    correct = sum(tally.correct for tally in tallies)
    return Evaluation(
        pairs=total,
        correct=correct,
        accuracy=_rounded(_ratio(correct, total)),
        missing=sum(count for (_, predicted), count in cells.items() if predicted is None),
        outside=_count_outside(((p, n) for (_, p), n in cells.items()), inside),
        gold_outside=_count_outside(((g, n) for (g, _), n in cells.items()), inside),
        labels=stated,
        classes=tuple(tally.score() for tally in tallies),
        undefined=tuple(tally.label for tally in tallies if not tally.support or not tally.predicted),
        macro=_by_convention(tallies, lambda tally: 1),
        weighted=_by_convention(tallies, lambda tally: tally.support),
        confusion=_confusion(cells),
    )


@dataclass(frozen=True, slots=True)
class _Tally:
    label: str
    support: int
    predicted: int
    correct: int

    @property
    def precision(self) -> Fraction | None:
        return _ratio(self.correct, self.predicted)

    @property
    def recall(self) -> Fraction | None:
        return _ratio(self.correct, self.support)

    @property
    def f1(self) -> Fraction | None:
        return _ratio(2 * self.correct, self.predicted + self.support)

    def score(self) -> ClassScore:
        return ClassScore(
            self.label,
            self.support,
            self.predicted,
            self.correct,
            _rounded(self.precision),
            _rounded(self.recall),
            _rounded(self.f1),
        )


def _tally(cells: Mapping[tuple[str, str | None], int], labels: Sequence[str]) -> list[_Tally]:
    support: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    for (gold, answer), count in cells.items():
        support[gold] += count
        if answer is not None:
            predicted[answer] += count
    return [_Tally(label, support[label], predicted[label], cells.get((label, label), 0)) for label in labels]


def _count_outside(counted: Iterable[tuple[str | None, int]], inside: frozenset[str]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for label, count in counted:
        if label is not None and label not in inside:
            found[label] += count
    return dict(sorted(found.items()))


def _by_convention(tallies: Sequence[_Tally], weight: Callable[[_Tally], int]) -> AveragesByConvention:
    def averages(undefined: int) -> Averages:
        total = sum(weight(tally) for tally in tallies)

        def mean(value: Callable[[_Tally], Fraction | None]) -> float | None:
            weighed = Fraction(0)
            for tally in tallies:
                score = value(tally)
                weighed += weight(tally) * (Fraction(undefined) if score is None else score)
            return float(weighed / total) if total else None

        return Averages(mean(lambda t: t.precision), mean(lambda t: t.recall), mean(lambda t: t.f1))

    return AveragesByConvention(averages(0), averages(1))


def _confusion(cells: Mapping[tuple[str, str | None], int]) -> tuple[ConfusionCell, ...]:
    ordered = sorted(cells.items(), key=lambda cell: (cell[0][0], cell[0][1] is None, cell[0][1] or ""))
    return tuple(ConfusionCell(gold, predicted, count) for (gold, predicted), count in ordered)


def _ratio(part: int, whole: int) -> Fraction | None:
    return Fraction(part, whole) if whole else None


def _rounded(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
