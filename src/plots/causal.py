"""Causal attention cut among ranks: whose queries look at which keys, and how much work that is."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from plots.marks import beside
from plots.theme import PAPER, WIDTH, color, ink_on, style

TRIANGLE, BAR = 2.2, 0.24  # inches: of a triangle's side, and of a rank's bar below it


def attention_pairs(orders: Mapping[str, Sequence[Sequence[int]]]) -> Figure:
    """Draw each query's row of keys in the colour of the rank that has it; each rank's pairs below.

    orders: by name, the positions of every rank in the whole sequence, as
    `rankbook.parallel.context.positions` gives them. A query at position p makes p + 1 pairs: with
    itself and all before it. Raises ValueError without orders, or where ranks have no position.
    """
    if not orders or not all(len(mine) for ranks in orders.values() for mine in ranks):
        raise ValueError("attention_pairs: give it {order: the positions of each rank}")
    found = {name: [np.sort(np.asarray(mine)) for mine in ranks] for name, ranks in orders.items()}
    most = max(int((mine + 1).sum()) for ranks in found.values() for mine in ranks)
    count = max(len(ranks) for ranks in found.values())
    heights = [TRIANGLE + 0.35, BAR * count + 0.15]
    with style():
        figure, grid = plt.subplots(
            2, len(found), figsize=(WIDTH, sum(heights)), squeeze=False, layout="constrained",
            height_ratios=heights,
        )  # fmt: skip
        for (above, below), (name, ranks) in zip(grid.T, found.items(), strict=True):
            first = above is grid[0, 0]
            _triangle(above, ranks)
            above.set(title=name, xlabel="keys", ylabel="queries" if first else "")
            _bars(below, ranks, most, named=first)
    return figure


def _triangle(axes: Axes, ranks: Sequence[np.ndarray]) -> None:
    length = sum(len(mine) for mine in ranks)
    for rank, mine in enumerate(ranks):
        for run in np.split(mine, np.flatnonzero(np.diff(mine) > 1) + 1):
            top, bottom = int(run[0]), int(run[-1]) + 1
            corners = [(0, top), (top, top), (bottom, bottom), (0, bottom)]
            axes.add_patch(Polygon(corners, fc=color(rank), ec=PAPER, lw=0.8))
            if bottom - top > length / 20:
                line = (top + 2 * bottom) / 3  # a triangle's rows are long enough there
                words = {"ha": "center", "va": "center", "color": ink_on(color(rank))}
                axes.text(line / 2, line, f"{rank}", **words)
    axes.set(xlim=(0, length), ylim=(length, 0), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _bars(axes: Axes, ranks: Sequence[np.ndarray], most: int, named: bool) -> None:
    for rank, mine in enumerate(ranks):
        pairs = int((mine + 1).sum())
        axes.barh(rank, pairs, 0.76, color=color(rank))
        beside(axes, pairs, rank, f"{pairs:,}")
    names = [f"rank {rank}" for rank in range(len(ranks))] if named else []
    axes.set(xlim=(0, 1.35 * most), ylim=(len(ranks) - 0.5, -0.5), xticks=[])
    axes.set_yticks(range(len(names)), names)
    axes.spines[:].set_visible(False)
