"""Which text shows nothing, and which text cannot be stored.

Blank is decided by code point, so that no choice of exotic spaces passes as text. The table covers the
separators and controls (Zs, Zl, Zp, Cc, Cf), the default-ignorable code points and non-characters of the
Unicode Character Database (16.0), and the few symbols and letters that are drawn as nothing. It is written
out, not read from `unicodedata`, so that every Python version decides alike; a test compares the two.
The prepended marks of category Cf (Arabic number sign and its like) are drawn and therefore not in it.
"""

from __future__ import annotations

import re
from typing import Final

BLANK_RANGES: Final[tuple[tuple[int, int], ...]] = (
    (0x0000, 0x0020),
    (0x007F, 0x00A0),
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x061C, 0x061C),
    (0x070F, 0x070F),
    (0x115F, 0x1160),  # Hangul fillers
    (0x1680, 0x1680),
    (0x17B4, 0x17B5),  # Khmer inherent vowels
    (0x180B, 0x180F),
    (0x2000, 0x200F),
    (0x2028, 0x202F),
    (0x205F, 0x206F),
    (0x2800, 0x2800),  # Braille pattern blank
    (0x3000, 0x3000),
    (0x3164, 0x3164),  # Hangul filler
    (0xD800, 0xDFFF),
    (0xFDD0, 0xFDEF),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),  # half-width Hangul filler
    (0xFFF0, 0xFFFC),
    (0xFFFE, 0xFFFF),
    (0x13430, 0x13440),
    (0x13441, 0x13442),  # Egyptian full and half blank
    (0x16FE4, 0x16FE4),  # Khitan small script filler
    (0x1BCA0, 0x1BCA3),
    (0x1D159, 0x1D159),  # musical null notehead
    (0x1D173, 0x1D17A),
    *((plane + 0xFFFE, plane + 0xFFFF) for plane in range(0x10000, 0x110000, 0x10000)),
    (0xE0000, 0xE0FFF),
)

_BLANK_CLASS: Final = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in BLANK_RANGES)
_VISIBLE: Final = re.compile(f"[^{_BLANK_CLASS}]")
_UNSTORABLE: Final = re.compile("[\\x00\ud800-\udfff]")

shows_something: Final = _VISIBLE.search
first_unstorable: Final = _UNSTORABLE.search


def is_blank(text: str) -> bool:
    """Whether `text` shows nothing, whatever code points it is made of. The empty text is blank."""
    return shows_something(text) is None


def is_storable(text: str) -> bool:
    """Whether PostgreSQL and UTF-8 can hold `text` as it is: no NUL, no lone surrogate."""
    return first_unstorable(text) is None
