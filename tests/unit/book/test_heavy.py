"""What `make profile-book` measured of the chapters: light, or with a reason, and never large."""

import json
from pathlib import Path

import yaml

BOOK = Path(__file__).resolve().parents[3] / "book"
RECORD = json.loads((BOOK / "results" / "make_book.json").read_text("utf-8"))
TAKEN = {row["page"]: row for row in RECORD["rows"]}
REASONS = yaml.safe_load((BOOK / "heavy.yml").read_text("utf-8"))
LIGHT = 25  # seconds of processor time


def test_the_record_is_of_these_chapters():
    chapters = {path.stem for path in (BOOK.parent / "chapters" / "en").glob("*.ipynb")}
    assert TAKEN.keys() == chapters, "measure again: make profile-book"


def test_a_chapter_is_light_or_says_why():
    heavy = {page for page, row in TAKEN.items() if row["CPU seconds"] > LIGHT}
    assert not heavy - REASONS.keys(), "make it lighter, or give a reason in book/heavy.yml"
    assert REASONS.keys() <= TAKEN.keys(), "a reason without a chapter"


def test_no_chapter_needs_much_memory():
    assert max(row["peak GB"] for row in TAKEN.values()) < 4
