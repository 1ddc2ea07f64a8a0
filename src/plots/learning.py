"""Trainings that were recorded: what they learnt by step, and what a recipe's changes bring."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from plots.marks import name_ends
from plots.tables import Table
from plots.theme import INK, PAPER, QUIET, WIDTH, color, style, unit

LOOKS = (("-", 4.5, 0.35), ("--", 1.6, 1.0), ("-", 1.6, 1.0), (":", 1.8, 1.0))


def learning_curves(
    runs: Mapping[str, Sequence[tuple[int, float]]],
    lines: Mapping[str, float],
    perplexity: bool = True,
) -> Figure:
    """Draw one curve a run against optimizer steps, and what to compare with as level lines.

    runs: name to points (step, loss in nats). lines: name to a loss in nats. perplexity: draw e to
    the losses, on a logarithmic axis. The first run is wide and pale, so that one which covers it
    can be seen. Raises ValueError without a run, or for an empty one.
    """
    if not runs or not all(runs.values()):
        raise ValueError("learning_curves: nothing to draw; give it a training's losses")
    shown = math.exp if perplexity else float
    last = max(step for points in runs.values() for step, _ in points)
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 3.1), layout="constrained")
        for number, (name, points) in enumerate(runs.items()):
            dashes, width, alpha = LOOKS[number % len(LOOKS)]
            steps, losses = zip(*points, strict=True)
            look = {"ls": dashes, "lw": width, "alpha": alpha, "color": color(number)}
            axes.plot(steps, [shown(loss) for loss in losses], "o", ms=4, label=name, **look)
        for name, loss in lines.items():
            axes.axhline(shown(loss), color=QUIET, lw=1, ls="--", zorder=1)
            number = f"{shown(loss):,.0f}" if perplexity else f"{loss:.2f}"
            below = loss >= max(each for points in runs.values() for _, each in points)
            axes.annotate(f"{name}: {number}", (last * 0.01, shown(loss)), (0, -2 if below else 2),
                          va="top" if below else "bottom", textcoords="offset points", color=INK,
                          bbox={"fc": PAPER, "ec": "none", "pad": 0.5})  # fmt: skip
        axes.set_xlabel("optimizer step")
        unit(axes, "perplexity" if perplexity else "loss")
        if perplexity:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=range(1, 10)))
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.minorticks_off()
        else:
            axes.set_ylim(0, None)
        axes.set_xlim(0, last * 1.02)
        axes.grid(axis="y")
        _name(axes, {name: shown(points[-1][1]) for name, points in runs.items()})
    plt.close(figure)  # it is what the cell returns; left open, it would be shown twice
    return figure


def _name(axes: Axes, ends: Mapping[str, float]) -> None:
    """The runs' names where their curves end; the name of an only one above its middle."""
    if len(ends) > 1:
        name_ends(axes, [(end, name, color(i)) for i, (name, end) in enumerate(ends.items())])
        return
    x, y = (np.asarray(values) for values in axes.lines[0].get_data())
    middle = x[len(x) // 2], y[len(y) // 2]
    where: dict[str, Any] = {"xytext": (6, 6), "textcoords": "offset points"}
    axes.annotate(next(iter(ends)), middle, color=INK, **where)


def recipe_table(results: Iterable[Mapping]) -> Table:
    """The perplexity that each change of the recipe comes to, median and range of the seeds.

    results: `recorded("wikitext2-recipe")`. Without one, a row says so.
    """
    head = ["recipe", "highest training loss", "validation perplexity", "of the seeds"]
    rows = [
        [
            ("" if number == 0 else "+ ") + row["change"],
            f"{row['highest training loss']:.2f}",
            row["ended"] or f"{math.exp(row['valid loss']):,.0f}",
            _range(row["valid losses"]),
        ]
        for result in results
        for number, row in enumerate(result["rows"])
    ]
    return Table(head, rows or [["the original's", "", "not measured yet", ""]])


def _range(losses: list[float]) -> str:
    """The lowest and the highest perplexity; nothing where no training gave a number."""
    return (
        " – ".join(f"{math.exp(loss):,.0f}" for loss in (min(losses), max(losses)))
        if losses
        else ""
    )
