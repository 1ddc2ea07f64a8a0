"""The front pages name each chapter by the title that stands on it."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ENTRY = re.compile(r"^- \[(.+)\]\(\.\./\.\./(chapters/\w+/\w+\.ipynb)\)", re.MULTILINE)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_front_page_calls_every_chapter_by_its_title(language):
    front = ROOT / "book" / language / "index.md"
    named = {path: title for title, path in ENTRY.findall(front.read_text("utf-8"))}
    chapters = sorted((ROOT / "chapters" / language).glob("*.ipynb"))
    assert named == {str(path.relative_to(ROOT)): heading(path) for path in chapters}


def heading(path: Path) -> str:
    """The first line of the chapter's first cell, without its mark."""
    first = json.loads(path.read_text("utf-8"))["cells"][0]
    return "".join(first["source"]).splitlines()[0].removeprefix("# ")
