"""How good predictions are: medians of errors, one constant MFU beside them, the order of layouts.

::

    summary()["time"]["held out"]   # {"median": 0.2, "rows": 145, "sources": 8}
    summary()["time"]["order"]      # {"right": 191, "pairs": 261, "by arithmetic": 174}
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from statistics import median
from typing import Any

from rankbook.predict.plan.published import Compared, compare
from rankbook.predict.plan.published_rows import Published
from rankbook.predict.plan.step import step_time

USES = ("held out", "fitted")
GOALS = {"time": 0.25, "memory": 0.10}  # of the median
CONSTANT = "torchtitan-a100"  # the source of the one MFU that a plan has to beat


def summary(rows: list[Compared] | None = None) -> dict[str, dict[str, Any]]:
    """For "time" and "memory", "held out" and "fitted": median of absolute errors, rows, sources.

    "by source" has a median for each source, and "of sources" the median of those held out. Of the
    time of rows held out: "constant", what one MFU for all would give, and "order", of how many
    pairs the layout that was faster is predicted to be, also "by arithmetic" alone.
    """
    rows = compare() if rows is None else rows
    found: dict[str, Any] = {}
    for kind in GOALS:
        own = [row for row in rows if row.kind == kind]
        found[kind] = {use: _group([r for r in own if r.use == use]) for use in USES}
        names = dict.fromkeys(row.source for row in own)
        by = {s.name: _group([r for r in own if r.source == s]) for s in names}
        held = [by[s.name]["median"] for s in names if kind not in s.chose]
        found[kind] |= {"goal": GOALS[kind], "by source": by, "of sources": median(held)}
    held_out = [row for row in rows if row.kind == "time" and not row.fitted]
    constant = constant_mfu(rows)
    same = [with_mfu(row, constant) for row in held_out]
    found["time"]["constant"] = {"mfu": constant, **_group(same)}
    right, pairs = ordered(held_out)
    work, _ = ordered(map(with_arithmetic, held_out))
    found["time"]["order"] = {"right": right, "pairs": pairs, "by arithmetic": work}
    return found


def median_error(rows: Iterable[Compared]) -> float:
    """The median of absolute errors; not a number without rows."""
    errors = [abs(row.error) for row in rows]
    return median(errors) if errors else float("nan")


def _group(rows: list[Compared]) -> dict[str, float]:
    sources = len({row.source for row in rows})
    return {"median": median_error(rows), "rows": len(rows), "sources": sources}


def constant_mfu(rows: Iterable[Compared]) -> float:
    """The median of the MFU that runs of `CONSTANT` reached: a prediction without a plan."""
    of_it = [r for r in rows if r.source.name == CONSTANT and r.kind == "time"]
    return median(_ideal(row.run) / row.measured for row in of_it)


def with_mfu(row: Compared, mfu: float) -> Compared:
    """A row of time whose prediction knows nothing of the layout: its arithmetic at an `mfu`."""
    return replace(row, predicted=_ideal(row.run) / mfu)


def with_arithmetic(row: Compared) -> Compared:
    """A row of time that is predicted from products of matrices alone: nothing sent, no bubble."""
    terms = step_time(row.run.shape, row.run.setup, row.run.machines)
    return replace(row, predicted=terms["compute"].value + terms["recompute"].value)


def ordered(rows: Iterable[Compared], apart: float = 0.0) -> tuple[int, int]:
    """(right, pairs): of how many pairs of set-ups the faster one, per token, was predicted to be.

    A pair is of the same model, cards and number of GPUs, of one source, and of two set-ups. apart:
    by which share the slower one has to be slower for the pair to count.
    """
    pairs = [_paces(*pair, apart) for pair in combinations(rows, 2) if _alike(*pair)]
    told = [right for right in pairs if right is not None]
    return sum(told), len(told)


def _alike(one: Compared, other: Compared) -> bool:
    a, b = one.run, other.run
    same = (a.source, a.shape, a.machines) == (b.source, b.shape, b.machines)
    return same and a.setup != b.setup


def _paces(one: Compared, other: Compared, apart: float) -> bool | None:
    """Whether the pair is predicted in its order; None if it was measured too near."""
    measured = [row.measured / _tokens(row.run) for row in (one, other)]
    predicted = [row.predicted / _tokens(row.run) for row in (one, other)]
    if max(measured) <= (1 + apart) * min(measured):
        return None
    one_first = measured[0] < measured[1]
    return predicted[0] < predicted[1] if one_first else predicted[0] > predicted[1]


def _tokens(run: Published) -> int:
    """Of a step, of all replicas."""
    setup = run.setup
    return setup.dp * setup.microbatches * setup.sequences * run.shape.sequence


def _ideal(run: Published) -> float:
    """Seconds of a step's arithmetic, nothing twice, at the cards' peak."""
    return run.shape.flops * _tokens(run) / (run.machines.gpus * run.machines.card.flops)
