"""Training across slow links: what goes over one in each step, and the loss that it buys."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from plots.marks import key
from plots.theme import INK, WIDTH, color, style, unit

PANEL, HEAD = 0.95, 0.55  # inches
MARKS = ("-", "--", ":")  # of ways after as many as there are colours for lines
COLORS = (0, 1, 4, 3, 6, 2)  # of the palette: those that differ most as lines


def link_use(used: Mapping[str, Sequence[float]]) -> Figure:
    """Draw what a rank sends in each step: a panel for each way, all on one scale.

    used: name of the way to the bytes of its steps, one number a step. The sum stands beside the
    name, in KiB as all is. Raises ValueError without ways.
    """
    if not used:
        raise ValueError("link_use: no ways; give it {name: bytes of each step}")
    most = max(max(each) for each in used.values()) / 1024
    with style():
        size = WIDTH, PANEL * len(used) + HEAD
        figure, panels = plt.subplots(
            len(used), figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained"
        )
        for axes, (name, each) in zip(panels[:, 0], used.items(), strict=True):
            axes.bar(range(1, len(each) + 1), [n / 1024 for n in each], 0.9, color=color(0))
            axes.set(ylim=(0, 1.1 * most))
            words = f"{name}, KiB in each step: {sum(each) / 1024:,.0f} in all"
            axes.set_title(words, color=INK)
            axes.grid(axis="y")
        panels[-1, 0].set_xlabel("step")
    return figure


def loss_on_link(rows: Iterable[Mapping[str, Any]]) -> Figure:
    """Draw loss against what a rank has sent, and against seconds: a line for each way.

    rows: of book/results/slow_links-cpu-2.json: "way", and lists "loss", "sent" (bytes so far) and
    "seconds". Both lower axes are logarithmic; a point at which nothing was sent is left out.
    Raises ValueError without rows.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("loss_on_link: no rows; give it those of a recorded result")
    looks = [{"color": color(COLORS[i % len(COLORS)]), "ls": MARKS[i // len(COLORS)]}
             for i in range(len(rows))]  # fmt: skip
    with style():
        figure, panels = plt.subplots(2, figsize=(WIDTH, 5.4), sharey=True, layout="constrained")
        for row, look in zip(rows, looks, strict=True):
            _line(panels[0], [n / 1e6 for n in row["sent"]], row["loss"], look)
            _line(panels[1], row["seconds"], row["loss"], look)
        for axes, words in zip(panels, ("MB that a rank has sent", "seconds"), strict=True):
            axes.set(xscale="log", xlabel=words)
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.minorticks_off()
            axes.grid(axis="y")
            unit(axes, "validation loss")
        key(figure, {row["way"]: Line2D([], [], lw=2, **look)
                     for row, look in zip(rows, looks, strict=True)}, columns=2)  # fmt: skip
    return figure


def _line(axes: Axes, x: Sequence[float], loss: Sequence[float], look: Mapping[str, Any]) -> None:
    points = [(a, b) for a, b in zip(x, loss, strict=True) if a > 0]
    axes.plot(*zip(*points, strict=True), **look)
