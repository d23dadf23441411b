"""What goes wrong with a call, at its share.

At most one fault happens in a call. The n-th call about a text meets the n-th draw, whatever else is in
flight, so a retry or a correction is a draw of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from assay.vendor.chance import Draws
from assay.vendor.extraction import EXTRACTION, spoilt
from assay.vendor.gold import JsonObject
from assay.vendor.shares import FaultShares

AT_THE_DOOR: Final = frozenset({"rate_limited", "unauthorised", "forbidden", "quota"})
"""Refused at once, by nothing but the account."""
INSTEAD_OF_WORK: Final = frozenset({"server_error", "overloaded", "timeout", "html"})
"""Come after the latency, in place of an answer."""
WITHOUT_WORK: Final = AT_THE_DOOR | INSTEAD_OF_WORK
HTML_PAGE: Final = (
    b"<!DOCTYPE html>\n<html><head><title>Please wait</title></head>"
    b"<body><h1>The gateway is checking your request.</h1></body></html>\n"
)
REFUSALS: Final = (
    "I'm sorry, but I can't help with that request.",
    "I can't assist with classifying this text.",
    "Es tut mir leid, dabei kann ich nicht helfen.",
    "申し訳ありませんが、そのご依頼にはお応えできません。",
)
PROSE_PREFIXES: Final = (
    "Here is the JSON: ",
    "Sure! Here is the classification you asked for:\n\n",
    "以下是结果：",
    "結果は次のとおりです。\n",
    "결과는 다음과 같습니다: ",
    "Voici le résultat : ",
    "Hier ist das Ergebnis:\n",
    "Aquí está el resultado: ",
    "إليك النتيجة: ",
)
EXTRA_FIELDS: Final[tuple[tuple[str, str | float | list[str]], ...]] = (
    ("language", "en"),
    ("sentiment", "neutral"),
    ("alternatives", []),
    ("priority", "normal"),
    ("score", 0.5),
)
_OUTSIDE_THE_TEXT: Final = frozenset(
    {
        "hang",
        "reset",
        "reset_mid_body",
        "drip",
        "truncated_json",
        "empty_choices",
        "missing_usage",
        "model_switch",
    }
)
_WORDY_CONFIDENCE: Final = ("high", "medium", "very likely")


@dataclass(frozen=True, slots=True)
class Said:
    """The text of a reply and why it ended: stop, length or refusal.

    `fault` is None where the drawn fault could not be applied.
    """

    content: str
    finish_reason: str
    fault: str | None


def draw_fault(shares: FaultShares, draws: Draws) -> str | None:
    """The fault of this call, or None."""
    point = draws.unit()
    for name, share in shares.drawn:
        if point < share:
            return name
        point -= share
    return None


def say(answer: JsonObject, fault: str | None, draws: Draws, text: str = "") -> Said:
    """The answer as text, with its content fault; faults of the envelope and of delivery are only named.

    An answer without confidence cannot have it as a string. `text` is the known text that it is about.
    """
    plain = _text(answer)
    if fault == "refusal":
        return Said(draws.one_of(REFUSALS), "refusal", fault)
    if fault == "prose_prefix":
        return Said(draws.one_of(PROSE_PREFIXES) + plain, "stop", fault)
    if fault == "string_confidence" and isinstance(answer.get("confidence"), (int, float)):
        return Said(_text({**answer, "confidence": _as_string(answer, draws)}), "stop", fault)
    if fault == "extra_field":
        fresh = [(name, value) for name, value in EXTRA_FIELDS if name not in answer]
        name, value = draws.one_of(fresh) if fresh else ("extra", "")
        return Said(_text({**answer, name: list(value) if isinstance(value, list) else value}), "stop", fault)
    if fault == "truncation":
        return Said(plain[: max(1, int(len(plain) * (0.2 + 0.6 * draws.unit())))], "length", fault)
    if fault in EXTRACTION and (wrong := spoilt(fault, answer, draws, text)) is not None:
        plain = wrong
    elif fault not in _OUTSIDE_THE_TEXT:
        fault = None
    return Said(plain, "stop", fault)


def _as_string(answer: JsonObject, draws: Draws) -> str:
    if draws.unit() < 0.25:
        return draws.one_of(_WORDY_CONFIDENCE)
    return str(answer["confidence"])


def _text(answer: JsonObject) -> str:
    return json.dumps(answer, ensure_ascii=False)
