"""What pipeline schedules cost, simulated: idle time and memory against microbatches."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from rankbook.plots.style import color, style

PANELS = (("idle", "idle share"), ("in_flight", "activations in flight"))


def schedule_costs(rows: Iterable[Mapping]) -> Figure:
    """Draw idle share, and activations in flight, against microbatches: one row a number of ranks.

    rows: those of `rankbook.parallel.sweep`. Schedules often coincide: every line is thinner than
    the one below it, and every second one is dashed. Raises ValueError without rows.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("schedule_costs: no rows; let sweep simulate plans that can run")
    names = list(dict.fromkeys(row["schedule"] for row in rows))
    ranks = sorted({row["ranks"] for row in rows})
    with style():
        size = (5.4, 1.75 * len(ranks) + 0.9)
        figure, grid = plt.subplots(
            len(ranks), 2, figsize=size, sharex=True, squeeze=False, layout="constrained"
        )
        for across, p in zip(grid, ranks, strict=True):
            for axes, (value, label) in zip(across, PANELS, strict=True):
                here = [row for row in rows if row["ranks"] == p]
                _lines(axes, here, names, value)
                axes.set_title(f"{label}, {p} rank{'s' * (p > 1)}", size=9.5)
            across[0].yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            across[0].set_ylim(0, None)
            across[1].set_yscale("log", base=2)
            across[1].yaxis.set_major_formatter("{x:g}")
        for axes in grid[-1]:
            axes.set_xlabel("microbatches")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3, fontsize=8.5)
    return figure


def _lines(axes, rows: list[Mapping], names: list[str], value: str) -> None:
    for i, name in enumerate(names):
        points = sorted(
            (row["microbatches"], row[value]) for row in rows if row["schedule"] == name
        )
        x, y = zip(*points, strict=True) if points else ((), ())
        dashes = (0, (2.5, 1.5)) if i % 2 else "-"
        axes.plot(x, y, color=color(i), lw=6.0 * 0.76**i, ls=dashes, label=name)
    counts = sorted({row["microbatches"] for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.grid(True)
