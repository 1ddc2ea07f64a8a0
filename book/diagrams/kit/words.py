"""Words in two languages: what is said, in which type, and how wide it is at most."""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unicodedata import east_asian_width

import matplotlib
from fontTools.ttLib import TTFont

SIZE = 14  # one size for all words
LEADING = 20  # from one line to the next
MARKED = re.compile(r"\*\*(.+?)\*\*|`(.+?)`")
FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
FILES = {"plain": "DejaVuSans.ttf", "bold": "DejaVuSans-Bold.ttf", "code": "DejaVuSansMono.ttf"}


class Saying(NamedTuple):
    """The same words in both languages."""

    en: str
    zh: str


class Run(NamedTuple):
    """A piece of a line in one type: ``plain``, ``bold`` or ``code``."""

    text: str
    type: str


def say(en: str, zh: str) -> Saying:
    """Words that are shown: ``say("weights", "权重")``."""
    return Saying(en, zh)


def lines(words: str | Saying, language: str) -> list[str]:
    """The lines of ``words`` in one language."""
    return (words if isinstance(words, str) else getattr(words, language)).split("\n")


def runs(line: str, bold: bool = False) -> list[Run]:
    """The pieces of a line: `` `code` ``, ``**bold**``, and what is between them."""
    usual, pieces, done = "bold" if bold else "plain", [], 0
    for found in MARKED.finditer(line):
        pieces.append(Run(line[done : found.start()], usual))
        pieces.append(Run(found[1], "bold") if found[1] else Run(found[2], "code"))
        done = found.end()
    pieces.append(Run(line[done:], usual))
    return [piece for piece in pieces if piece.text]


@cache
def _advances(type: str) -> tuple[dict[int, float], float]:
    font = TTFont(FONTS / FILES[type])
    widths, em = font["hmtx"].metrics, font["head"].unitsPerEm
    return {code: widths[name][0] / em for code, name in font.getBestCmap().items()}, 0.6


def width(pieces: list[Run], language: str, size: float = SIZE) -> float:
    """How wide a line is at most: DejaVu's letters, which are wide; squares for Chinese."""
    square = "WFA" if language == "zh" else "WF"
    total = 0.0
    for text, type in pieces:
        advances, usual = _advances(type)
        for letter in text:
            wide = east_asian_width(letter) in square
            total += 1.0 if wide else advances.get(ord(letter), usual)
    return total * size
