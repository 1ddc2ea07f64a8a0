"""What each chapter takes: seconds, processor time by process and by cell, memory.

Usage: ``python book/profile_book.py [--elsewhere] [CHAPTER ...]``, a chapter by the beginning of
its name. Nothing is kept. Without chapters (``make profile-book``), all are executed as the build
does it, and ``book/results/make_book.json`` is written anew.
"""

import argparse
import sys
from pathlib import Path

from conditions import environment
from execution.client import MANY, WITH_MEMORY, Client
from execution.outcome import Outcome
from fingerprint import OUT, ROOT

LEAST = 0.5  # seconds of processor time that are worth a place in the table
CELLS = 6  # a chapter's heaviest, that are shown


def main() -> int:
    """Execute and print; the exit status is 1 where a chapter stopped."""
    parser = argparse.ArgumentParser(description="What each chapter takes.")
    parser.add_argument("chapters", nargs="*", help="beginnings of names, such as 12; all if none")
    parser.add_argument(
        "--elsewhere", action="store_true", help="on a plainer processor, with the stand-in texts"
    )
    given = parser.parse_args()
    if not given.chapters:
        from profile_record import write_record

        return write_record()
    every = sorted((ROOT / "chapters" / "en").glob("*.ipynb"))
    chosen = [p for name in given.chapters for p in every if p.stem.startswith(name)]
    stopped = 0
    with Client(environment(given.elsewhere) | {WITH_MEMORY: "1"}, MANY) as client:
        for chapter in chosen:
            outcome = client.execute(chapter, OUT / "logs" / f"profile-{chapter.stem}.log")
            Path(outcome.executed).unlink()
            print(in_words(chapter.stem, outcome), flush=True)
            stopped += outcome.failure is not None
    return min(stopped, 1)


def in_words(chapter: str, outcome: Outcome) -> str:
    """The rows of one chapter."""
    lines = [
        f"{chapter}: {outcome.cpu:.0f} CPU-seconds in {outcome.seconds:.0f} s, "
        f"{outcome.peak_bytes / 1e9:.1f} GB at most",
        "  processes: " + shares(outcome.by_process),
        "  cells: " + shares(outcome.by_cell, CELLS),
    ]
    if failure := outcome.failure:
        lines.append(f"  STOPPED in cell {failure.cell!r}: {failure.reason}")
        lines.append(failure.report[-3000:])
    return "\n".join(lines)


def shares(seconds: dict[str, float], most: int = 99) -> str:
    """``kernel 3.1, rank server 12.0``, the largest first."""
    rows = sorted(seconds.items(), key=lambda row: -row[1])[:most]
    return ", ".join(f"{name} {taken:.1f}" for name, taken in rows if taken >= LEAST)


if __name__ == "__main__":
    sys.exit(main())
