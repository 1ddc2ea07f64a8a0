"""A plan's predictions beside what others measured: the error of each row, and the medians.

::

    rows = compare()                        # 169 step times, 73 memories
    summary()["time"]["held out"]           # {"median": 0.2, "rows": 118, "sources": 7}
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from rankbook.memory.formula import fullest, memory_of
from rankbook.plan.machines import Assumptions, Machines
from rankbook.plan.published_rows import Published, Source, published
from rankbook.plan.published_units import MEMORY
from rankbook.plan.step import step_time

USES = ("held out", "fitted")
GOALS = {"time": 0.25, "memory": 0.10}  # of the median


@dataclass(frozen=True)
class Compared:
    """What was predicted for a row and what was measured: seconds of a step, or bytes."""

    source: Source
    words: str
    what: str
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Predicted over measured, less 1: below 0 is too fast, or too small."""
        return self.predicted / self.measured - 1

    @property
    def fitted(self) -> bool:
        """Whether assumptions were chosen with its source."""
        return self.source.use == "fitted"

    @property
    def kind(self) -> str:
        """ "time" or "memory"."""
        return "time" if self.what == "seconds" else "memory"


def compare(assumed: Assumptions | None = None) -> list[Compared]:
    """Every published row with its prediction, with the plan's own assumptions or others."""
    assumed = assumed or Assumptions()
    return [found for row in published() for found in _compared(row, assumed)]


def _compared(row: Published, assumed: Assumptions) -> Iterable[Compared]:
    """Its seconds; its memory once, as near to what the formula counts as was measured."""
    own = assumed if row.overlap else replace(assumed, hidden=0.0)
    machines = replace(row.machines, assumed=own)
    if "seconds" in row.measured:
        seconds = seconds_of(row, machines)
        yield Compared(row.source, row.words, "seconds", seconds, row.measured["seconds"])
    what = next((each for each in MEMORY if each in row.measured), None)
    if what:
        nbytes = bytes_of(row, machines, what)
        yield Compared(row.source, row.words, what, nbytes, row.measured[what])


def seconds_of(row: Published, machines: Machines) -> float:
    """Of a step; checkpointing that lies between two ends is a share of what lies between them."""
    least = step_time(row.shape, row.setup, machines).total
    if row.between is None:
        return least
    most = step_time(row.shape, replace(row.setup, checkpointing="layers"), machines).total
    return least + row.between.anew * (most - least)


def bytes_of(row: Published, machines: Machines, what: str) -> float:
    """Of the fullest rank's tensors; "reserved" adds fragments, "card" what came before them."""
    nbytes = _tensors(row, row.setup)
    if row.between is not None:
        least = _tensors(row, replace(row.setup, checkpointing="layers"))
        nbytes = least + row.between.kept * (nbytes - least)
    if what == "allocated":
        return nbytes
    nbytes *= 1 + machines.assumed.fragments
    return nbytes + (machines.assumed.workspace if what == "card" else 0.0)


def _tensors(row: Published, setup: Any) -> float:
    if row.first_layers:
        uneven = replace(row.shape, layers=row.first_layers * setup.pp)
        return memory_of(uneven, setup, 0).total
    return fullest(row.shape, setup)[1].total


def median_error(rows: Iterable[Compared]) -> float:
    """The median of absolute errors; not a number without rows."""
    errors = [abs(row.error) for row in rows]
    return median(errors) if errors else float("nan")


def summary(rows: list[Compared] | None = None) -> dict[str, dict[str, dict[str, float]]]:
    """For "time" and "memory", "held out" and "fitted": median of absolute errors, rows, sources.

    "by source" has a median for each source, and "of sources" the median of those held out.
    """
    rows = compare() if rows is None else rows
    found: dict[str, Any] = {}
    for kind in GOALS:
        own = [row for row in rows if row.kind == kind]
        found[kind] = {use: _group([r for r in own if r.source.use == use]) for use in USES}
        names = dict.fromkeys(row.source for row in own)
        by = {s.name: _group([r for r in own if r.source == s]) for s in names}
        held = [by[s.name]["median"] for s in names if s.use == "held out"]
        found[kind] |= {"goal": GOALS[kind], "by source": by, "of sources": median(held)}
    return found


def _group(rows: list[Compared]) -> dict[str, float]:
    sources = len({row.source for row in rows})
    return {"median": median_error(rows), "rows": len(rows), "sources": sources}
