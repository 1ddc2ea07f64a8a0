"""Bytes of a rank as measured, beside what the formula had said."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.marks import beside, key
from plots.plans import HELD, HELD_NAMES
from plots.strategies import MIB
from plots.theme import INK, WIDTH, style

BAR, ROW, HEAD = 0.7, 0.27, 1.5  # of a row; inches


def memory_checked(rows: Iterable[Mapping]) -> Figure:
    """Draw a bar a configuration, what its fullest rank held, and a mark where the formula was.

    rows: {"name", "measured", "predicted"}; measured: {part: bytes}, of the parts that
    `rankbook.predict.memory.memory_of` has; predicted: bytes in all. Beside each bar stands how far
    the formula is off. Raises ValueError without rows.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("memory_checked: no rows; record a step and compute its memory first")
    with style():
        size = WIDTH, ROW * len(rows) + HEAD
        figure, axes = plt.subplots(figsize=size, layout="constrained")
        longest = 0.0
        for line, row in enumerate(rows):
            left = 0.0
            for part, ground in HELD.items():
                width = row["measured"].get(part, 0) / MIB
                axes.barh(line, width, BAR, left=left, color=ground, lw=0)
                left += width
            mark = row["predicted"] / MIB
            axes.plot([mark] * 2, [line - 0.48, line + 0.48], color=INK, lw=1.8)
            beside(axes, max(left, mark), line, f"{mark / left - 1:+.1%}")
            longest = max(longest, left, mark)
        axes.set(yticks=range(len(rows)), yticklabels=[row["name"] for row in rows])
        axes.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, 1.16 * longest))
        axes.set_xlabel("MiB of the fullest rank")
        axes.grid(axis="x")
        seen = {part for row in rows for part, size in row["measured"].items() if size}
        looks = {HELD_NAMES.get(p, p): look for p, look in HELD.items() if p in seen}
        key(figure, looks | {"by the formula": Line2D([], [], color=INK, lw=1.8)}, columns=2)
    return figure
