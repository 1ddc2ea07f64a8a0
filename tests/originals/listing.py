"""The originals' own listings, where their texts lie beside the checkout."""

from pathlib import Path

import pytest

ORIGINALS = Path(__file__).parents[3] / "shared" / "originals"


def listing(text: str, first: str, last: str) -> str:
    """The lines of `text` (a file's name) from the first that begins with `first` to the next that
    begins with `last`, both included; the test is skipped where the text is not at hand."""
    path = ORIGINALS / text
    if not path.exists():
        pytest.skip(f"the original's text {text} is not beside this checkout")
    lines = path.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(first))
    end = next(i for i in range(start, len(lines)) if lines[i].startswith(last))
    return "\n".join(lines[start : end + 1])
