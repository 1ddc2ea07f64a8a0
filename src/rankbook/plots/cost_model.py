"""What is computed for many nodes, called so in the title, and what it is checked against."""

import textwrap
from collections.abc import Mapping, Sequence
from math import isinf

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, PercentFormatter

from rankbook.plots.theme import QUIET, color, style

NAMED = (8, 64, 512)  # nodes that the chapter speaks of
DASHES = ("-", (0, (4, 1.5)), (0, (1.5, 1.2)))

NodeLines = Mapping[str, Mapping[int, float]]


def start_at_scale(importing: NodeLines, note: str = "") -> Figure:
    """Draw the seconds until all ranks have imported, against the number of nodes.

    importing: name of a way to {nodes: seconds}. note: the assumptions, below the figure. Raises
    ValueError without a line.
    """
    panels = {"until all ranks have imported": importing}
    return _figure("start_at_scale", "Starting, computed", panels, "seconds", note)


def start_up_measured(rows: Sequence[Mapping]) -> Figure:
    """Draw measured starts as bars, a group for each number of nodes and ranks, and what was
    computed for each as a diamond.

    rows: mappings with way, nodes, ranks, measured and computed (seconds). Raises ValueError
    without any.
    """
    if not rows:
        raise ValueError("start_up_measured: there is nothing to draw; give it rows")
    shapes = list(dict.fromkeys((row["nodes"], row["ranks"]) for row in rows))
    ways = list(dict.fromkeys(row["way"] for row in rows))
    wide = 0.8 / len(ways)
    with style():
        figure, axes = plt.subplots(figsize=(6.8, 3.6), layout="constrained")
        for i, way in enumerate(ways):
            mine = [row for row in rows if row["way"] == way]
            where = [
                shapes.index((row["nodes"], row["ranks"])) + (i - (len(ways) - 1) / 2) * wide
                for row in mine
            ]
            bars = axes.bar(where, [r["measured"] for r in mine], wide, color=color(i), label=way)
            axes.bar_label(bars, fmt="{:.1f}", fontsize=8, padding=2)
            label = "computed" if i == 0 else None
            computed = [row["computed"] for row in mine]
            axes.plot(where, computed, "D", color=QUIET, mec="white", ms=6, label=label)
        names = [f"{_of(nodes, 'node')}, {_of(ranks, 'rank')} each" for nodes, ranks in shapes]
        axes.set_xticks(range(len(shapes)), names, fontsize=8)
        axes.set(ylabel="seconds", title="Until the last rank has imported torch, measured")
        axes.margins(y=0.12)
        axes.legend(fontsize=8)
    return figure


def agents_meet(rows: Sequence[Mapping], computed: Mapping[int, float]) -> Figure:
    """Draw the seconds until all agents have met: the median of each row with its spread as a
    band, and beside it what was computed.

    rows: mappings with agents, median, p10 and p90 (seconds). computed: {agents: seconds}.
    Raises ValueError without any row.
    """
    if not rows:
        raise ValueError("agents_meet: there is nothing to draw; give it rows")
    agents = [row["agents"] for row in rows]
    with style():
        figure, axes = plt.subplots(figsize=(6.8, 3.4), layout="constrained")
        low, high = ([row[end] for row in rows] for end in ("p10", "p90"))
        axes.fill_between(agents, low, high, color=color(0), alpha=0.2, lw=0)
        medians = [row["median"] for row in rows]
        axes.plot(agents, medians, "o-", color=color(0), label="measured, with p10 to p90")
        axes.plot(
            list(computed), list(computed.values()), "D", ls=DASHES[1], color=color(1),
            label="computed",
        )  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="agents", ylabel="seconds")
        axes.set_xticks(agents, [str(n) for n in agents])
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.grid(True)
        axes.set_title("Until all agents have met")
        axes.legend(fontsize=8, loc="upper left")
    return figure


def _of(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def all_reduce_at_scale(
    links: Mapping[str, NodeLines], crossings: Mapping[str, float], note: str = ""
) -> Figure:
    """Draw the milliseconds of one all_reduce: a panel a link, with a line an algorithm.

    links: name to {algorithm: {nodes: seconds}}. crossings: name of a link to the number of nodes
    from which the ring waits longer than it transfers: drawn upright. note: the assumptions,
    below the figure. Raises ValueError without a line.
    """
    panels = {
        name: {way: {n: 1e3 * s for n, s in line.items()} for way, line in lines.items()}
        for name, lines in links.items()
    }
    figure = _figure(
        "all_reduce_at_scale", "One all_reduce, computed", panels, "milliseconds", note
    )
    for axes, name in zip(figure.axes, links, strict=True):
        if name in crossings:
            axes.axvline(crossings[name], color=QUIET, lw=1, ls=":", zorder=1)
    return figure


def share_at_scale(idle: NodeLines, lost: NodeLines, note: str = "") -> Figure:
    """Draw the share of the time that pipelines idle, and that failures and saving cost.

    idle, lost: name to {nodes: share}, from 0 to 1. note: the assumptions, below the figure.
    Raises ValueError without a line.
    """
    panels = {"pipelines wait": idle, "failures and saving": lost}
    figure = _figure(
        "share_at_scale", "Time that does not train, computed", panels, "share of the time", note
    )
    for axes in figure.axes:
        axes.set(yscale="linear")
        axes.set_ylim(0, None)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    return figure


def _figure(
    caller: str, title: str, panels: Mapping[str, NodeLines], unit: str, note: str
) -> Figure:
    if not any(line for lines in panels.values() for line in lines.values()):
        raise ValueError(f"{caller}: there is nothing to draw; give it {{name: {{nodes: value}}}}")
    with style():
        figure, grid = plt.subplots(
            1,
            len(panels),
            figsize=(6.8 if len(panels) > 1 else 5.4, 3.8),
            layout="constrained",
            squeeze=False,
        )
        for axes, (name, lines) in zip(grid[0], panels.items(), strict=True):
            axes.set_title(name)
            axes.set(xscale="log", yscale="log", xlabel="nodes")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
            axes.yaxis.set_major_formatter("{x:g}")
            for i, (label, line) in enumerate(lines.items()):
                _line(axes, line, label, i)
            axes.set_xticks(NAMED, [str(n) for n in NAMED])
            axes.minorticks_off()
            axes.grid(True)
            axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(-0.05, -0.2))
            axes.margins(y=0.1)
        grid[0][0].set_ylabel(unit)
        figure.suptitle(title, size="medium")
        if note:
            figure.supxlabel(textwrap.fill(note, 110), size=7.5, color=QUIET)
    return figure


def _line(axes: Axes, line: Mapping[int, float], label: str, number: int) -> None:
    """What ends as a line with dots at the named numbers of nodes; what does not as crosses."""
    look = {"color": color(number), "label": label}
    ends = {n: value for n, value in sorted(line.items()) if not isinf(value)}
    dots = [i for i, n in enumerate(ends) if n in NAMED]
    style_ = {"marker": "o", "ms": 4, "markevery": dots, "ls": DASHES[number % len(DASHES)]}
    axes.plot(list(ends), list(ends.values()), **look, **style_)
    never = [n for n, value in line.items() if isinf(value)]
    if never:
        above = axes.get_xaxis_transform()  # nodes across, share of the height up
        axes.plot(never, [0.97] * len(never), "x", color=color(number), ms=6, transform=above)
