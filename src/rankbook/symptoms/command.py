"""``rankbook symptom``: an entry of the page Symptoms in a terminal."""

import argparse
import os
import sys
import textwrap
import unicodedata
from collections.abc import Callable

from rankbook.symptoms.entries import Symptom, every
from rankbook.symptoms.matching import find

WIDTH = 88


def add_command(commands: argparse._SubParsersAction) -> Callable[[argparse.Namespace], int]:
    """Add the command to an argparse parser's `commands`; return what runs it, for a status."""
    parser = commands.add_parser(
        "symptom",
        help="say what a message means and where the book cures it",
        description="Say what a message means and where the book cures it. "
        "Status: 0, or 1 where the book has no entry for it.",
    )
    parser.add_argument(
        "text",
        nargs="*",
        help="an entry's name, a message as it was printed, or - for the standard input; "
        "without any, the list of all entries",
    )
    parser.set_defaults(run=run)
    return run


def run(options: argparse.Namespace) -> int:
    """Print what was asked for; 1 where there is no such entry."""
    language = "zh" if _locale().startswith("zh") else "en"
    if not options.text:
        print("\n".join(f"{s.id:28} {_first_line(s.message(language))}" for s in every()))
        return 0
    text = sys.stdin.read() if options.text == ["-"] else " ".join(options.text)
    named = [s for s in every() if s.id == text.strip()]
    symptom = named[0] if named else find(text)
    if symptom is None:
        print("The book has no entry for this text. rankbook symptom lists what it has.")
        return 1
    print(as_text(symptom, language))
    return 0


def as_text(symptom: Symptom, language: str) -> str:
    """The entry in lines of 88 columns; language: en or zh."""
    say, do, see = {
        "en": ("It means: ", "Do this: ", "See: "),
        "zh": ("含义：", "怎么办：", "参见："),
    }[language]
    paragraphs = [f"{say}{symptom.means[language]}", f"{do}{symptom.do[language]}"]
    cells = [c.replace("#", ".ipynb#cell-id=") for c in symptom.cells]  # as JupyterLab takes it
    paragraphs.append(see + ", ".join([symptom.address, *cells]))
    return "\n".join([symptom.message(language), "", *map(_wrap, paragraphs)])


def _wrap(paragraph: str) -> str:
    if any(unicodedata.east_asian_width(char) == "W" for char in paragraph):
        return paragraph  # without spaces to break at; a terminal breaks it anywhere
    return textwrap.fill(paragraph, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _first_line(message: str) -> str:
    return message.strip().split("\n")[0][:WIDTH]


def _locale() -> str:
    return next(filter(None, map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), "")
