"""nbmake executes every chapter in both languages, each under conditions of its own.

English: with the data and the processor of this machine, in the order of a build; what went well
is kept, and is what the book shows. Chinese: the same code with the stand-in texts that come with
the library, without a hub, with a processor of another kind that others keep busy, and in a random
order.
"""

import os
import random
import tempfile
import time
from functools import cache
from pathlib import Path

import nbformat
from conditions import ASLEEP, ELSEWHERE, environment
from execute import place
from executed import keep
from execution.client import Client
from execution.outcome import Failure
from execution.turns import times_something
from fingerprint import ROOT, Keys
from nbmake import pytest_items
from nbmake.nb_result import NotebookError, NotebookResult
from nbmake.nb_run import NotebookRun

CHAPTERS = Path(__file__).parent
PAGES = [0]  # how many this run has
ORDER = "RANKBOOK_CHAPTER_ORDER"  # a number; the controller's, which its workers inherit
SEED = os.environ.setdefault(ORDER, str(time.time_ns() % 100_000))


class WatchedRun(NotebookRun):
    """A run as the book's build makes it: warm, and ended only when it does not get on."""

    def execute(self) -> NotebookResult:
        """Run the notebook, and keep what came of it, if it is the book's."""
        path = Path(self.filename)
        ours = path.is_relative_to(CHAPTERS) and path.parent.name == "en"
        key = Keys(ROOT).of(path) if ours else ""
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            outcome = client(path.parent.name).execute(path, log)
            notebook = nbformat.read(outcome.executed, as_version=nbformat.NO_CONVERT)
            Path(outcome.executed).unlink()
            written = log.read_text("utf-8", errors="replace")[-5000:] if log.exists() else ""
        if outcome.failure:
            return NotebookResult(nb=notebook, error=error(outcome.failure, notebook, written))
        if ours:
            keep(path, key, notebook, outcome.seconds)
        return NotebookResult(nb=notebook, error=None)


@cache
def client(language: str) -> Client:
    """The server of pages under the conditions of a language; it ends with this process."""
    conditions = {**ASLEEP, **environment(elsewhere=language == "zh")}
    return Client(conditions, PAGES[0]).__enter__()


def error(failure: Failure, notebook, written: str) -> NotebookError:
    """What pytest shows of a page that stopped, what its processes wrote at its end."""
    cells = [cell.id for cell in notebook.cells]
    number = cells.index(failure.cell) if failure.cell else -1
    trace = f"cell {failure.cell!r}: {failure.report or failure.reason}\n{written}"
    return NotebookError(summary=failure.reason, trace=trace, failing_cell_index=number)


def pytest_report_header() -> list[str]:
    """Which was which."""
    texts = os.environ.get("RANKBOOK_DATA", "the hub's, or the stand-ins")
    return [
        f"chapters/en: texts from {texts}; this machine's processor; a build's order",
        f"chapters/zh: stand-in texts, no hub; {ELSEWHERE}; order {SEED} ({ORDER})",
        f"both: {ASLEEP}",
    ]


def pytest_collection_modifyitems(items) -> None:
    """The Chinese pages in a random order, between the English that come first and last in a build.

    Last are the pages with cells that run alone: for them all others wait, and they for all others.
    """
    PAGES[0] = len(items)
    chinese = [item for item in items if item.path.parent.name == "zh"]
    random.Random(SEED).shuffle(chinese)
    others = [item for item in items if item not in chinese]
    others.sort(key=lambda item: place((item.path, "")))
    first = sum(not times_something(item.path) for item in others)
    items[:] = [*others[:first], *chinese, *others[first:]]


pytest_items.NotebookRun = WatchedRun
