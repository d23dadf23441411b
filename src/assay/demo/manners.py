"""How people really write: typing errors, capitals, emoji, odd code points, mangled line ends.

Every change keeps the meaning, so the gold stays true. All code points can be stored: no NUL, no lone
surrogate.
"""

from __future__ import annotations

from typing import Final

from assay.demo.draws import Draws
from assay.demo.texts.language import Language

EMOJI: Final = ("🙏", "😡", "😢", "👍", "📦", "💳", "🔒", "🤷🏽‍♀️", "❗❗", "👨‍👩‍👧", "🇪🇺", "☹️")
ODD_CODE_POINTS: Final = (
    "\u200b",  # zero width space
    "\u200d\u200d",  # zero width joiners
    "\u202e\u202c",  # right-to-left override, closed again
    "\u2028",  # line separator: splits lines for careless readers
    "\u0085",  # next line
    "\ufeff",  # byte order mark in the middle
    "\ufffd",  # replacement character
    "e\u0301\u0302\u0323\u0330\u035c",  # stacked marks
    "\U0001d4d7\U0001d4ee\U0001d4f5\U0001d4f9",  # letters beyond the basic plane
    "\ue000",  # private use
    "\x07",  # a control character
    "\\u0000 %s {0} ${x} <br> &nbsp; '; --",  # looks like code, is text
)


def as_people_write(text: str, language: Language, draws: Draws) -> str:
    """The text with the manners that this draw gives it; mostly none."""
    if language.latin and draws.happens(140):
        text = _with_typing_errors(text, draws)
    if language.latin and draws.happens(20):
        text = text.upper()
    elif language.latin and draws.happens(50):
        text = text.lower()
    if draws.happens(110):
        text = f"{text} {draws.one_of(EMOJI)}"
    if draws.happens(40):
        text = text.replace("\n", "\r\n")
    if draws.happens(15):
        place = draws.between(1, len(text) - 1) if len(text) > 1 else len(text)
        text = text[:place] + draws.one_of(ODD_CODE_POINTS) + text[place:]
    return text


def nearly_the_same(text: str, draws: Draws) -> str:
    """The text again with a change that a person would not count as another message."""
    if draws.happens(500):
        return text + draws.one_of(("!", "!!", " ", "\n", "?", " …", "\n\n--"))
    return draws.one_of(("Re: ", "Fwd: ", "> ", "2. ", "+1 ")) + text


def _with_typing_errors(text: str, draws: Draws) -> str:
    letters = list(text)
    for _ in range(draws.between(1, 3)):
        place = draws.below(len(letters) - 1) if len(letters) > 1 else 0
        if not all(letter.isalpha() for letter in letters[place : place + 2]):
            continue
        if draws.happens(500):
            letters[place : place + 2] = reversed(letters[place : place + 2])
        else:
            letters[place] *= draws.one_of((0, 2))
    return "".join(letters)
