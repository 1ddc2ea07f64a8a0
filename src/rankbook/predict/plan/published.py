"""A plan's predictions beside what others measured, row by row; `accuracy` sums up.

::

    rows = compare()                        # 169 step times, 73 memories
    rows[0].words, rows[0].error
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from rankbook.predict.memory.formula import fullest, memory_of
from rankbook.predict.plan.machines import Assumptions, Machines
from rankbook.predict.plan.published_rows import Published, Source, published
from rankbook.predict.plan.published_units import MEMORY
from rankbook.predict.plan.step import step_time


@dataclass(frozen=True)
class Compared:
    """What was predicted for a `run` and what was measured: seconds of a step, or bytes."""

    run: Published
    what: str
    predicted: float
    measured: float

    @property
    def source(self) -> Source:
        """Where the row comes from."""
        return self.run.source

    @property
    def words(self) -> str:
        """What ran, in a few words."""
        return self.run.words

    @property
    def error(self) -> float:
        """Predicted over measured, less 1: below 0 is too fast, or too small."""
        return self.predicted / self.measured - 1

    @property
    def kind(self) -> str:
        """ "time" or "memory"."""
        return "time" if self.what == "seconds" else "memory"

    @property
    def use(self) -> str:
        """ "fitted" if its source chose assumptions of this kind, or "held out"."""
        return "fitted" if self.kind in self.source.chose else "held out"

    @property
    def fitted(self) -> bool:
        """Whether assumptions were chosen with rows of this kind and source."""
        return self.use == "fitted"


def compare(assumed: Assumptions | None = None) -> list[Compared]:
    """Every published row with its prediction, with the plan's own assumptions or others."""
    assumed = assumed or Assumptions()
    return [found for row in published() for found in _compared(row, assumed)]


def _compared(row: Published, assumed: Assumptions) -> Iterable[Compared]:
    """Its seconds; its memory once, as near to what the formula counts as was measured."""
    own = assumed if row.overlap else replace(assumed, hidden=0.0)
    machines = replace(row.machines, assumed=own)
    if "seconds" in row.measured:
        yield Compared(row, "seconds", seconds_of(row, machines), row.measured["seconds"])
    what = next((each for each in MEMORY if each in row.measured), None)
    if what:
        yield Compared(row, what, bytes_of(row, machines, what), row.measured[what])


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
