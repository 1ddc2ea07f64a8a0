"""Draw the book's diagrams from their descriptions: `python book/draw.py [NAME ...]`.

A description is a module of `book/diagrams`, its pictures are `book/pictures/{en,zh}/NAME.svg`.

1. Write `book/diagrams/NAME.py`: `one_step.py` is a short example, `diagrams/kit` has the words.
2. `python book/draw.py NAME`; look at both files, and again until you would be proud of them.
3. `![what it says](../../book/pictures/en/NAME.svg)` in the English cell, ``zh`` in the Chinese.
"""

import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import diagrams
from diagrams.kit import Misdrawn, Picture

PICTURES = Path(__file__).parent / "pictures"
LANGUAGES = ("en", "zh")


def names() -> list[str]:
    """The names of all descriptions."""
    return sorted(module.name for module in iter_modules(diagrams.__path__) if not module.ispkg)


def drawn(name: str, language: str) -> str:
    """The text of one picture's file."""
    description = import_module(f"diagrams.{name}")
    picture = Picture(language, *description.SIZE)
    description.draw(picture)
    return picture.svg()


def path(name: str, language: str) -> Path:
    """Where the file of a picture lies."""
    return PICTURES / language / f"{name}.svg"


def main() -> int:
    """Write the pictures that are named, or all; the number of those that cannot be drawn."""
    wrong = 0
    for name in sys.argv[1:] or names():
        for language in LANGUAGES:
            try:
                text = drawn(name, language)
            except Misdrawn as error:
                print(f"{name}: {error}", file=sys.stderr)
                wrong += 1
                continue
            path(name, language).parent.mkdir(parents=True, exist_ok=True)
            path(name, language).write_text(text, "utf-8")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
