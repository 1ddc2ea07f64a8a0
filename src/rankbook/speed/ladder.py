"""Recipes side by side in one run: they take turns, so that a slow minute is slow for all."""

import math
import time
from collections.abc import Callable, Mapping, Sequence

import torch

from rankbook.core.timing import spread
from rankbook.speed.ladder_row import Row
from rankbook.speed.recipes import Recipe, changed
from rankbook.speed.reviews import Reviews
from rankbook.speed.sizes import Size


def run(
    recipes: Sequence[Recipe],
    size: Size,
    reviews: Reviews | dict[str, Reviews],
    *,
    device: torch.device | str = "cpu",
    steps: int | None = None,
    repeats: int = 7,
    seed: int = 0,
    together: int | None = None,
    minutes: float = math.inf,
    done: Sequence[Mapping] = (),
    keep: Callable[[list[dict]], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> list[dict]:
    """Time `recipes` on the same batches, in turns; one row for each, in their order.

    reviews: the training reviews, or all splits. steps: how many of the plain recipe's make one
    pass, the whole split if None. Each recipe first goes over all batches, and compiles; its
    losses of that pass are kept. Then come `repeats` turns, each of the same batches.

    together: how many rows take turns with the first recipe, to which all are compared, before
    the next ones do; None: all. minutes: after so many no more rows begin, and the result has only
    those that are finished. done: rows of an earlier run, of which nothing is timed again.
    keep: called with all finished rows whenever some have been added, to write them. `say` takes
    a line after each pass.

    A row that cannot run here has `skipped`, one that failed has `error`, in a sentence; the
    others go on. Raises ValueError for more steps than there are samples.
    """
    device = torch.device(device)
    samples = reviews["train"] if isinstance(reviews, dict) else reviews
    if steps is not None:
        samples = samples.first(steps * size.batch)
    finished = {row["name"]: dict(row) for row in done}
    left = [recipe for recipe in recipes if recipe.name not in finished]
    end = time.monotonic() + 60 * minutes
    for start in range(0, len(left), together or max(len(left), 1)):
        group = left[start : start + (together or len(left))]
        rows = [Row(each, size, samples, device, seed) for each in _with_first(recipes, group)]
        _turns(rows, repeats, say)
        for found in _finished(rows, recipes):
            finished.setdefault(found["name"], found)  # the first recipe has its row already
        if keep:
            keep([finished[r.name] for r in recipes if r.name in finished])
        if time.monotonic() > end:
            break
    return [finished[recipe.name] for recipe in recipes if recipe.name in finished]


def _with_first(recipes: Sequence[Recipe], group: list[Recipe]) -> list[Recipe]:
    """`group`, and the first of all `recipes`, so that ratios are of one run."""
    return group if recipes[0] in group else [recipes[0], *group]


def _turns(rows: list[Row], repeats: int, say: Callable[[str], None] | None) -> None:
    """A warm-up of each row, then `repeats` turns, each time another row first."""
    for turn in range(repeats + 1):
        running = [row for row in rows if row.runs]
        first = turn % max(len(running), 1)
        for row in running[first:] + running[:first]:
            row.take_turn()
            if say:
                say(row.said(turn, repeats))
    for row in rows:
        row.free()  # for what is measured next


def _finished(rows: list[Row], recipes: Sequence[Recipe]) -> list[dict]:
    """Their results, with what only several tell: the switch, and how many times as fast."""
    known = {recipe.name: recipe for recipe in recipes}
    found = [row.result() for row in rows]
    first = found[0]
    for row in found:
        base = known.get(row["base"])
        row["switch"] = changed(known[row["name"]], base) if base else {}
        if "seconds" in row and "seconds" in first:
            row["speed_up"] = row["samples_per_s"] / first["samples_per_s"]
            by_turn = zip(first["turns"], row["turns"], strict=False)
            row["times"] = spread(a / b for a, b in by_turn) if row["turns"] else None
    return found
