"""What the practice vendor says about a text: right or wrong, and how sure it sounds.

A text keeps its answer: asked again it gets the same label and confidence, so that a killed and repeated run
ends where an undisturbed one does. Another seed or another model name answers otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from assay.vendor.chance import Draws
from assay.vendor.gold import Gold, Json, JsonObject, Label
from assay.vendor.lookup import Match

LONGEST_REASON: Final = 300
_GENERAL_LABELS: Final = ("other", "insufficient_evidence", "unknown", "none")
_REASONS: Final = (
    "The main request is about {label}.",
    "The wording points to {label}.",
    "{label} fits best; nothing in the text speaks against it.",
    "Classified as {label} because of what the sender asks for.",
    "The sender describes something that belongs to {label}.",
)
_UNSURE: Final = "Nothing in the text decides it."
_READ: Final = "The values were read from the text."


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer before it is put into the requested shape.

    `label` is None where the answer is an object; then `extracted` holds it. `wrong` says that it differs
    from gold on purpose.
    """

    label: str | None
    extracted: JsonObject
    confidence: float
    reason: str
    wrong: bool


class Answers:
    """Draws answers from gold at a set error rate, which may change."""

    def __init__(self, gold: Gold, seed: int, error_rate: float) -> None:
        self._gold = gold
        self._seed = seed
        self.error_rate = error_rate
        self._values = _values_by_field(gold.objects)

    def about(self, match: Match, subject: bytes, model: str, allowed: Sequence[str] | None) -> Answer:
        """The answer about a matched text.

        `subject` is the text's digest, `allowed` the labels that the request's schema lists. An unknown text
        gets the most general label there is (`other` before all), or an object of nulls, and a confidence
        of at most 0.35.
        """
        draws = Draws(self._seed, subject, f"answer|{model}")
        if match.how == "unknown":
            return self._guess(draws, allowed)
        label = self._gold.answers[match.text]
        wrong = draws.unit() < self.error_rate
        if wrong:
            other = self._other_than(label, draws)
            wrong = other is not None
            label = label if other is None else other
        confidence = _wrong_confidence(draws) if wrong else _right_confidence(draws)
        if isinstance(label, dict):
            return Answer(None, label, confidence, _READ, wrong)
        return Answer(label, {}, confidence, _reason(draws, label), wrong)

    def _guess(self, draws: Draws, allowed: Sequence[str] | None) -> Answer:
        confidence = round(0.05 + 0.3 * draws.unit(), 3)
        labels = allowed or self._gold.labels
        if labels:
            by_name = {label.casefold(): label for label in reversed(labels)}
            general = next((by_name[name] for name in _GENERAL_LABELS if name in by_name), labels[0])
            return Answer(general, {}, confidence, _UNSURE, wrong=False)
        blank: JsonObject = dict.fromkeys(self._gold.objects[0])
        return Answer(None, blank, confidence, _UNSURE, wrong=False)

    def _other_than(self, label: Label, draws: Draws) -> Label | None:
        """Another label, or the object with one field of another record; None where there is no other."""
        if isinstance(label, str):
            others = [known for known in self._gold.labels if known != label]
            return draws.one_of(others) if others else None
        candidates = [name for name in label if _others(self._values.get(name, ()), label[name])]
        if not candidates:
            return None
        field = draws.one_of(candidates)
        return {**label, field: draws.one_of(_others(self._values[field], label[field]))}


def _right_confidence(draws: Draws) -> float:
    """0.5 to 0.99, mean 0.89: the largest of four even draws."""
    return round(0.5 + 0.49 * max(draws.unit() for _ in range(4)), 3)


def _wrong_confidence(draws: Draws) -> float:
    """0.3 to 0.95, mean 0.63: about one wrong answer in seven still sounds surer than 0.85."""
    return round(0.3 + 0.65 * draws.unit(), 3)


def _reason(draws: Draws, label: str) -> str:
    return draws.one_of(_REASONS).format(label=label)[:LONGEST_REASON]


def _values_by_field(objects: Sequence[JsonObject]) -> dict[str, list[Json]]:
    values: dict[str, list[Json]] = {}
    for gold in objects:
        for name, value in gold.items():
            known = values.setdefault(name, [])
            if len(known) < 500 and value not in known:
                known.append(value)
    return values


def _others(values: Sequence[Json], value: Json) -> list[Json]:
    return [other for other in values if other != value]
