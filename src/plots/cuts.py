"""Matrices cut among ranks: who holds which rows or columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from plots.theme import PAPER, QUIET, WIDTH, color, ink_on, style

NUMBERED = 8  # as many shards have room for their rank's number; as many colours there are
PER_ROW = 4


def shards(matrices: Mapping[str, tuple[int, Sequence[tuple[int, int]]]]) -> Figure:
    """Draw each matrix as a square, and every rank's shard of it in the rank's colour.

    matrices: by name, the dimension that is cut (0: rows, 1: columns) and the shape (rows, columns)
    of each rank's shard, in the order of ranks. Raises ValueError where there is none, or where the
    shards of one make no matrix.
    """
    if not matrices:
        raise ValueError("shards: there is no matrix to draw")
    for name, (dimension, shapes) in matrices.items():
        if len({shape[1 - dimension] for shape in shapes}) != 1:
            raise ValueError(f"shards: those of {name} differ where they are not cut")
    many = max(len(shapes) for _, shapes in matrices.values()) > NUMBERED
    per_row = PER_ROW // 2 if many else PER_ROW
    columns = min(per_row, len(matrices))
    rows = -(-len(matrices) // per_row)
    size = (WIDTH * columns / per_row, (3.2 if many else 1.75) * rows)
    with style():
        figure, grid = plt.subplots(
            rows, columns, figsize=size, squeeze=False, layout="constrained"
        )
        for axes in grid.flat:
            axes.axis("off")
        for axes, (name, cut) in zip(grid.flat, matrices.items(), strict=False):
            _matrix(axes, name, *cut)
    return figure


def _matrix(axes: Axes, name: str, dimension: int, shapes: Sequence[tuple[int, int]]) -> None:
    """A square, whatever the matrix's shape: what counts is how it is cut."""
    whole = sum(shape[dimension] for shape in shapes)
    many = len(shapes) > NUMBERED
    look = {"ec": PAPER, "lw": 0 if many else 0.8}
    start = 0.0
    for rank, shape in enumerate(shapes):
        part = shape[dimension] / whole
        at, extent = ((0, start), (1, part)) if dimension == 0 else ((start, 0), (part, 1))
        axes.add_patch(Rectangle(at, *extent, fc=color(rank), **look))
        middle = at[0] + extent[0] / 2, at[1] + extent[1] / 2
        words: dict[str, Any] = {"ha": "center", "va": "center", "color": ink_on(color(rank))}
        if many:  # beside it, where the colours begin anew
            middle = (-0.02, middle[1]) if dimension == 0 else (middle[0], 1.02)
            words = {"ha": "right", "va": "center", "color": QUIET}
            words |= {} if dimension == 0 else {"ha": "center", "va": "top"}
        if not many or rank % NUMBERED == 0:
            axes.text(*middle, f"{rank}", **words)
        start += part
    axes.set(xlim=(0, 1), ylim=(1, 0), aspect="equal", title=name)
    rows, columns = shapes[0]
    said = f"{len(shapes)} of {rows} × {columns}"
    below = 1.12 if many else 1.04
    axes.text(0.5, below, said, ha="center", va="top", color=QUIET)
