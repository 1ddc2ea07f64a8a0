"""Chapters that stopped on this machine, in words: where, why, and what to do."""

import textwrap

from fingerprint import ROOT

WHAT_TO_DO = {
    "raised": "read the cell's report, on the page or above; make lab opens the chapter, to try it",
    "died": "the log may say what ended it; with little memory, end other programs, then make book",
    "stalled": "on a machine this slow or this busy, give it more time: "
    "RANKBOOK_STALLED_AFTER=1800 make book",
    "changed": "make book",
}


FIRST, LAST = 40, 20  # lines of a report that is too long: a compiler's may have thousands


def shown(done) -> str:
    """The cell of a chapter that stopped, with its report."""
    failure, line = done.outcome.failure, "=" * 78
    return f"\n{line}\n{title(done)}\n{shortened(failure.report or failure.reason)}\n{line}\n"


def shortened(report: str) -> str:
    """`report`, or where it is long its beginning and its end."""
    lines = report.rstrip().split("\n")
    left = len(lines) - FIRST - LAST
    if left <= 1:
        return report
    between = f"[... {left} lines more, on the page ...]"
    return "\n".join([*lines[:FIRST], between, *lines[-LAST:]])


def list_of(failed: list) -> str:
    """One list of all that stopped: page, cell, reason, log, what to do."""
    many = "1 page stopped" if len(failed) == 1 else f"{len(failed)} pages stopped"
    parts = [f"\n{many} on this machine; the book shows what came before, and says so there."]
    for done in failed:
        failure = done.outcome.failure
        rows = [
            title(done) + (" (tried twice)" if done.again else ""),
            f"  why: {textwrap.shorten(failure.reason, 200)}",
            f"  log: {done.log.relative_to(ROOT)}",
            f"  what to do: {WHAT_TO_DO[failure.kind]}",
        ]
        parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"


def title(done) -> str:
    """``32_padding stopped in cell 'solution'``."""
    cell = done.outcome.failure.cell
    return f"{done.chapter.stem} stopped " + (
        f"in cell {cell!r}" if cell else "before a cell began"
    )
