"""What is computed for many nodes, called so in the title, and what it is checked against."""

from collections.abc import Mapping, Sequence
from math import isinf

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, PercentFormatter

from plots.marks import key, name_ends
from plots.theme import INK, PAPER, QUIET, SMALLEST, WIDTH, color, style, unit

NAMED = (8, 64, 512)  # nodes that the chapter speaks of
DASHES = ("-", (0, (4, 1.5)), (0, (1.5, 1.2)))

NodeLines = Mapping[str, Mapping[int, float]]


def start_at_scale(importing: NodeLines, note: str = "") -> Figure:
    """Draw the seconds until all ranks have imported, against the number of nodes.

    importing: name of a way to {nodes: seconds}. note: the assumptions, below the figure. Raises
    ValueError without a line.
    """
    panels = {"until all ranks have imported": importing}
    return _named(_figure("start_at_scale", "Starting, computed", panels, "seconds", note))


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
    high = 0.84 / len(ways)
    with style():
        size = (WIDTH, 0.2 * len(ways) * len(shapes) + 1.1)
        figure, axes = plt.subplots(figsize=size, layout="constrained")
        for i, way in enumerate(ways):
            mine = [row for row in rows if row["way"] == way]
            where = [
                shapes.index((row["nodes"], row["ranks"])) + (i - (len(ways) - 1) / 2) * high
                for row in mine
            ]
            axes.barh(where, [r["measured"] for r in mine], high * 0.92, color=color(i), label=way)
            computed = [row["computed"] for row in mine]
            axes.plot(computed, where, "D", color=INK, mec=PAPER, ms=6)
            for y, row in zip(where, mine, strict=True):
                end = max(row["measured"], row["computed"])
                axes.annotate(f"{row['measured']:.1f}", (end, y), (5, 0), va="center_baseline",
                              textcoords="offset points", color=QUIET)  # fmt: skip
        names = [f"{nodes} × {ranks}" for nodes, ranks in shapes]
        axes.set_yticks(range(len(shapes)), names)
        axes.set(xlabel="seconds", ylabel="nodes × ranks of each", ylim=(len(shapes) - 0.5, -0.5))
        axes.set_title("Until the last rank has imported torch, measured")
        axes.margins(x=0.1)
        looks: dict = {way: color(i) for i, way in enumerate(ways)}
        looks["computed"] = Line2D([], [], ls="", marker="D", color=INK, mec=PAPER, ms=6)
        key(figure, looks, columns=4)
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
        figure, axes = plt.subplots(figsize=(WIDTH, 3.0), layout="constrained")
        low, high = ([row[end] for row in rows] for end in ("p10", "p90"))
        axes.fill_between(agents, low, high, color=color(0), alpha=0.2, lw=0)
        medians = [row["median"] for row in rows]
        axes.plot(agents, medians, "o-", color=color(0), label="measured")
        look = {"ls": DASHES[1], "color": color(1), "label": "computed"}
        axes.plot(list(computed), list(computed.values()), "D", **look)
        axes.set(xscale="log", yscale="log", xlabel="agents")
        axes.set_xticks(agents, [str(n) for n in agents])
        _upright(axes, "seconds until all agents have met", (1, 2, 5))
        ends = [(medians[-1], "measured", color(0))]
        if computed:
            ends.append((list(computed.values())[-1], "computed", color(1)))
        name_ends(axes, ends)
    return figure


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
            axes.axvline(crossings[name], color=QUIET, ls=":", zorder=1)
            words = f"from {crossings[name]:.0f} nodes on the ring mostly waits"
            axes.annotate(words, (crossings[name], 1), (5, -2), va="top", color=QUIET,
                          xycoords=("data", "axes fraction"),
                          textcoords="offset points")  # fmt: skip
    return _named(figure)


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
    return _named(figure)


def _figure(
    caller: str, title: str, panels: Mapping[str, NodeLines], unit_of: str, note: str
) -> Figure:
    if not any(line for lines in panels.values() for line in lines.values()):
        raise ValueError(f"{caller}: there is nothing to draw; give it {{name: {{nodes: value}}}}")
    with style():
        size = (WIDTH, 2.35 * len(panels) + 0.5 + 0.18 * len(_lines(note)))
        figure, grid = plt.subplots(
            len(panels), figsize=size, layout="constrained", squeeze=False, sharex=True
        )
        for axes, (name, lines) in zip(grid[:, 0], panels.items(), strict=True):
            axes.set(xscale="log", yscale="log")
            for i, (label, line) in enumerate(lines.items()):
                _line(axes, line, label, i)
            axes.set_xticks(NAMED, [str(n) for n in NAMED])
            _upright(axes, f"{name}, {unit_of}")
            axes.margins(y=0.1)
        grid[-1, 0].set_xlabel("nodes")
        figure.suptitle(title, x=0.01, ha="left")
        if note:
            figure.supxlabel("\n".join(_lines(note)), x=0.01, ha="left", size=SMALLEST, color=QUIET)
    return figure


def _named(figure: Figure) -> Figure:
    """The figure with the names of its lines at their ends, now that the axes are what they are."""
    with style():
        for axes in figure.axes:
            ends = [
                (
                    float(np.asarray(line.get_ydata())[-1]),
                    str(line.get_label()),
                    str(line.get_color()),
                )
                for line in axes.lines
                if not str(line.get_label()).startswith("_")
            ]
            name_ends(axes, ends)
    return figure


def _lines(note: str) -> list[str]:
    """Each assumption on a line of its own."""
    return note.split(", ") if note else []


def _upright(axes: Axes, words: str, steps: Sequence[float] = (1, 3)) -> None:
    """A logarithmic axis in plain numbers."""
    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.grid(axis="y")
    unit(axes, words)


def _line(axes: Axes, line: Mapping[int, float], label: str, number: int) -> None:
    """What ends as a line with dots at the named numbers of nodes; what does not as crosses."""
    ends = {n: value for n, value in sorted(line.items()) if not isinf(value)}
    dots = [i for i, n in enumerate(ends) if n in NAMED]
    look = {"color": color(number), "label": label, "ls": DASHES[number % len(DASHES)]}
    axes.plot(list(ends), list(ends.values()), marker="o", markevery=dots, **look)
    never = [n for n, value in line.items() if isinf(value)]
    if never:
        above = axes.get_xaxis_transform()  # nodes across, share of the height up
        axes.plot(never, [0.97] * len(never), "x", color=color(number), ms=6, transform=above)
