"""What collectives leave on every rank, as tables of the numbers that are there."""

from collections.abc import Collection, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from rankbook.plots.style import QUIET, color, ink_on, style

SUM = "#eceff2"  # the ground of a number that is nobody's alone


def collectives(
    before: Sequence,
    after: Sequence[Mapping],
    sums: Collection[str] = ("all_reduce", "reduce_scatter"),
) -> Figure:
    """Draw each rank's numbers before, and after each of several collectives.

    before: [ranks][numbers], no number twice. after: for every rank, what each collective left
    there: name to 1-D numbers, or None for nothing. A number has the colour of the rank that it
    was on before; the results of the collectives in `sums` have none.
    """
    owner = {float(x): rank for rank, row in enumerate(before) for x in np.asarray(row)}
    names = list(after[0])
    across = 3
    rows = -(-len(names) // across)
    width = max(len(row) for row in before)
    with style():
        figure = plt.figure(figsize=(6.8, 0.32 * len(before) * (rows + 1) + 0.9 * (rows + 1)))
        grid = figure.add_gridspec(rows + 1, across, hspace=0.42, wspace=0.12)
        _panel(figure.add_subplot(grid[0, across // 2]), "before", before, width, owner)
        for i, name in enumerate(names):
            axes = figure.add_subplot(grid[1 + i // across, i % across])
            numbers = [rank[name] for rank in after]
            _panel(axes, name, numbers, width, {} if name in sums else owner)
    return figure


def _panel(axes, title: str, rows: Sequence, width: int, owner: Mapping) -> None:
    axes.set(xlim=(-1.45, width), ylim=(len(rows), 0), aspect="equal")
    axes.axis("off")
    axes.text(0.04, -0.2, title)
    for rank, numbers in enumerate(rows):
        axes.text(-0.25, rank + 0.5, f"rank {rank}", ha="right", va="center", color=QUIET, size=8)
        for i, number in enumerate([] if numbers is None else np.asarray(numbers).ravel()):
            ground = color(owner[float(number)]) if float(number) in owner else SUM
            cell = plt.Rectangle((i + 0.04, rank + 0.06), 0.92, 0.88, color=ground, lw=0)
            axes.add_patch(cell)
            axes.text(
                i + 0.5,
                rank + 0.5,
                f"{number:g}",
                ha="center",
                va="center",
                color=ink_on(ground),
                size=8,
            )
