"""The words of the demo tickets: one module per language, all written for this project.

Companies, products, people and places in them are made up or too general to be anybody's.
"""

from __future__ import annotations

from typing import Final

from assay.demo.texts import ar, de, en, es, fr, it, ja, ko, pt, zh
from assay.demo.texts.language import Language

LANGUAGES: Final[tuple[tuple[Language, int], ...]] = (
    (en.ENGLISH, 34),
    (de.GERMAN, 12),
    (fr.FRENCH, 9),
    (es.SPANISH, 9),
    (pt.PORTUGUESE, 7),
    (it.ITALIAN, 7),
    (ko.KOREAN, 6),
    (ja.JAPANESE, 6),
    (zh.CHINESE, 6),
    (ar.ARABIC, 4),
)
"""Each language with its share of tickets in percent."""
