"""What ``make book`` took when it was last measured, by ``make profile-book``."""

import json
from functools import cache
from pathlib import Path

RECORD = Path(__file__).resolve().parent / "results" / "make_book.json"
A_PAGE = 2.0  # GB, of one that was not measured


@cache
def record() -> dict:
    """The record; empty where there is none."""
    return json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}


@cache
def pages() -> dict[str, dict]:
    """What each chapter (``12_all_reduce``) took, if it was measured: the rows of the record."""
    return {row["page"]: row for row in record().get("rows", ())}


def page_bytes(chapter: str) -> float:
    """The most memory that the processes of a chapter held at one time."""
    return pages().get(chapter, {}).get("peak GB", A_PAGE) * 1e9


def page_seconds(chapter: str) -> float | None:
    """How long the chapter took, if it was measured."""
    return pages().get(chapter, {}).get("seconds")


def in_words() -> str:
    """A sentence on how long all of it took, where, and what it needs; empty without a record."""
    if not (known := record()):
        return ""
    whole, where = known["whole"], f"{known['where']} ({known['processor']})"
    return (
        f"All of it took {whole['minutes']:.0f} minutes on {where}, "
        f"with up to {whole['peak GB']:.1f} GB of memory and {whole['disk GB']:.1f} GB of disk."
    )
