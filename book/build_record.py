"""What ``make book`` took when it was last measured, by ``make profile-book``."""

import json
from functools import cache
from pathlib import Path

RECORD = Path(__file__).resolve().parent / "results" / "make_book.json"
A_PAGE = 2 << 30  # bytes, of one that was not measured


@cache
def record() -> dict:
    """The record; empty where there is none."""
    return json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}


def page_bytes(chapter: str) -> int:
    """The most memory that the processes of a chapter (``12_all_reduce``) held at one time."""
    return record().get("pages", {}).get(chapter, {}).get("peak_bytes", A_PAGE)


def page_seconds(chapter: str) -> float | None:
    """How long the chapter took, if it was measured."""
    return record().get("pages", {}).get(chapter, {}).get("seconds")


def in_words() -> str:
    """A sentence on how long all of it took, where, and what it needs; empty without a record."""
    known = record()
    if not known:
        return ""
    machine, whole = known["where"], known["whole"]
    return (
        f"All of it took {whole['seconds'] / 60:.0f} minutes on {machine['cores']} cores "
        f"({machine['processor']}), up to {whole['peak_bytes'] / 1e9:.1f} GB of memory and "
        f"{whole['disk_bytes'] / 1e9:.1f} GB of disk."
    )
