"""Which entry a pasted text belongs to; ``book/static/symptoms.js`` does the same in a browser."""

import re

from rankbook.symptoms.entries import Symptom, every

COLOUR = re.compile(r"\x1b\[[\d;]*m")
PREFIX = re.compile(r"^\[(?:rank|default)?\d+\]:? ?", re.MULTILINE)  # torchrun's and torch's


def find(message: str) -> Symptom | None:
    """The entry that fits `message` best, None where none does.

    The longest match is the most specific. What only follows from another rank's failure counts
    where nothing else is found.
    """
    text = plain(message)
    possible = [s for s in every() if s.pattern and all(part in text for part in s.fixed)]
    matches = [(s, m) for s in possible if (m := re.search(s.pattern, text))]
    fits = [(not s.late, len(m[0]), s) for s, m in matches]
    return max(fits, key=lambda fit: fit[:2])[2] if fits else None


def plain(text: str) -> str:
    """`text` in one line, without colours and the names of ranks before its lines."""
    return " ".join(PREFIX.sub("", COLOUR.sub("", text)).split())


def pointer(message: str) -> str:
    """The last line of a report on `message`: where the book has more; "" where it has nothing."""
    symptom = find(message)
    return f"More on this: rankbook symptom {symptom.id} ({symptom.address})" if symptom else ""
