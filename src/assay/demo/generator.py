"""Generates support tickets with gold, for demonstrations and tests.

Ticket number n of a seed is always the same, however many are generated, on every Python and platform. The
words are in `assay.demo.texts`; the manners of writing in `assay.demo.manners`.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from assay.demo.draws import Draws
from assay.demo.manners import as_people_write, nearly_the_same
from assay.demo.texts import LANGUAGES
from assay.demo.texts.language import Language

INSUFFICIENT_EVIDENCE: Final = "insufficient_evidence"
_SHARES: Final = (
    ("billing", 25),
    ("technical", 24),
    ("account", 18),
    ("shipping", 20),
    ("other", 8),
    (INSUFFICIENT_EVIDENCE, 5),
)
CATEGORIES: Final = tuple(name for name, _ in _SHARES)
"""The gold labels. The last one is the gold of tickets whose text does not decide it."""

CUSTOMERS: Final = 400
_PRODUCTS: Final = (
    "Lumo 2",
    "Brixo Go",
    "Tarn 400",
    "Velka Mini",
    "Ondo Air",
    "Pira X",
    "Quill Desk",
    "Sorrel Pro",
)
_PLANS: Final = ("Plus", "Team", "Basic", "Family", "Studio")
_SEPARATORS: Final = ((" ", 6), ("\n", 2), ("\n\n", 4))
_REMEMBERED_FOR_NEAR_DUPLICATES: Final = 50


@dataclass(frozen=True, slots=True)
class DemoTicket:
    """One ticket: `category` is gold, `language` an ISO 639-1 code, `customer` one of 400 made-up ids."""

    id: str
    text: str = field(repr=False)
    category: str
    language: str
    customer: str


def generate(count: int, seed: int = 0) -> Iterator[DemoTicket]:
    """Yield `count` tickets, no two with the same text."""
    seen: set[bytes] = set()
    recent: deque[tuple[str, str, str]] = deque(maxlen=_REMEMBERED_FOR_NEAR_DUPLICATES)
    for number in range(1, count + 1):
        draws = Draws(seed, number)
        if recent and draws.happens(20):
            original, category, code = draws.one_of(recent)
            text = nearly_the_same(original, draws)
        else:
            text, category, code = _written(draws)
        text = _unlike_all(text, seen, draws)
        recent.append((text, category, code))
        # The square makes some customers write often and many seldom.
        customer = draws.below(1000) ** 2 * CUSTOMERS // 1_000_000
        yield DemoTicket(f"ticket-{number:06}", text, category, code, f"customer-{customer + 1:03}")


def write_jsonl(path: Path, count: int, seed: int = 0) -> None:
    """Write the tickets as JSON lines in UTF-8; the file appears whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            for ticket in generate(count, seed):
                file.write(json.dumps(asdict(ticket), ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _unlike_all(text: str, seen: set[bytes], draws: Draws) -> str:
    """The text, with a reference below it if it has been written before."""
    while (digest := hashlib.blake2b(text.encode(), digest_size=12).digest()) in seen:
        text = f"{text}\n[{_order(draws)}]"
    seen.add(digest)
    return text


def _written(draws: Draws) -> tuple[str, str, str]:
    """A new ticket: text, category, language code."""
    language = draws.weighted(LANGUAGES)
    category = draws.weighted(_SHARES)
    text = as_people_write(_message(language, category, draws), language, draws)
    return text, category, language.code


def _message(language: Language, category: str, draws: Draws) -> str:
    slots = _slots(language, draws)
    separator = draws.weighted(_SEPARATORS)
    body = [draws.one_of(_deciding(language, category))]
    if category != INSUFFICIENT_EVIDENCE:
        body += _company(language, draws)
    if draws.happens(12):
        body.insert(draws.below(len(body) + 1), draws.one_of(language.injections))
    greeting, closing = draws.one_of(language.greetings), draws.one_of(language.closings)
    joint = separator if language.spaced or "\n" in separator else ""
    parts = [greeting, joint.join(body), closing]
    text = _filled(joint.join(part for part in parts if part), slots)
    if draws.happens(80):
        text += "\n\n" + _quoted(language, draws, draws.between(1, 3))
    if draws.happens(6):
        text += "\n\n" + _endless(language, draws)
    return text


def _deciding(language: Language, category: str) -> tuple[str, ...]:
    return {
        "billing": language.billing,
        "technical": language.technical,
        "account": language.account,
        "shipping": language.shipping,
        "other": language.other,
        INSUFFICIENT_EVIDENCE: language.vague,
    }[category]


def _company(language: Language, draws: Draws) -> list[str]:
    """Sentences around the one that decides: mostly one or two, sometimes none."""
    details = list(language.details)
    count = draws.weighted(((0, 3), (1, 4), (2, 3), (3, 1)))
    chosen = [details.pop(draws.below(len(details))) for _ in range(count)]
    return [*chosen, draws.one_of(language.asides)] if draws.happens(180) else chosen


def _quoted(language: Language, draws: Draws, depth: int) -> str:
    """An earlier e-mail, quoted `depth` levels deep."""
    lines = []
    for level in range(1, depth + 1):
        head = "> " * (level - 1)
        slots = _slots(language, draws)
        lines.append(head + _filled(language.quoted, slots))
        lines += [
            f"{head}> {_filled(draws.one_of(language.quoted_lines), slots)}"
            for _ in range(draws.between(1, 3))
        ]
    return "\n".join(lines)


def _endless(language: Language, draws: Draws) -> str:
    """Several thousand code points that decide nothing: pasted correspondence, or a log."""
    if draws.happens(500):
        return "\n\n".join(
            _quoted(language, draws, draws.between(3, 6)) for _ in range(draws.between(20, 50))
        )
    return "\n".join(_log_line(draws) for _ in range(draws.between(120, 400)))


def _log_line(draws: Draws) -> str:
    day = f"2026-{draws.between(1, 12):02}-{draws.between(1, 28):02}"
    clock = f"{draws.between(0, 23):02}:{draws.between(0, 59):02}"
    return f"{day} {clock} worker-{draws.between(1, 9)} ref={_order(draws)} took={draws.between(1, 4000)}ms"


def _filled(template: str, slots: dict[str, str]) -> str:
    return template.format_map(slots)


def _slots(language: Language, draws: Draws) -> dict[str, str]:
    day, month, year = (
        f"{draws.between(1, 28):02}",
        f"{draws.between(1, 12):02}",
        str(draws.between(2025, 2026)),
    )
    whole = draws.weighted(
        ((draws.between(3, 99), 6), (draws.between(100, 999), 3), (draws.between(1000, 4999), 1))
    )
    return {
        "order": _order(draws),
        "amount": language.money.format(whole=whole, cents=draws.one_of(("00", "50", "90", "95", "99"))),
        "product": draws.one_of(_PRODUCTS),
        "plan": draws.one_of(_PLANS),
        "days": str(draws.between(2, 21)),
        "date": language.date.format(day=day, month=month, year=year),
        "city": draws.one_of(language.cities),
        "code": f"E-{draws.between(100, 4999)}",
        "version": f"{draws.between(1, 9)}.{draws.between(0, 20)}.{draws.between(0, 9)}",
        "name": draws.one_of(language.names),
    }


def _order(draws: Draws) -> str:
    return f"{draws.one_of('ABDKMRT')}-{draws.between(10, 99)}{draws.between(100, 999)}"
