"""What collectives cost: measured times beside the line that foretells them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from plots.marks import key, name_ends
from plots.tables import Table
from plots.theme import PAPER, QUIET, WIDTH, color, style, unit

# colour, mark and line of each way in a race
WAYS = (
    (color(1), "s", "--"),
    (color(0), "o", "-"),
    (color(4), "^", "-."),
    (color(6), "D", ":"),
)
DECADES = 1000  # an axis that spans less has too few powers of ten to label only them
UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def alpha_beta(
    nbytes: Sequence[float], seconds: Sequence, alpha: float, beta: float, title: str = ""
) -> Figure:
    """Draw measured times and the line ``alpha + beta * nbytes`` (s, s/byte) over the sizes.

    nbytes: [sizes]. seconds: [sizes][repeats]; the dot is the median, the bar reaches from the 10th
    to the 90th percentile. Below, the same as bytes a second. Raises ValueError without a
    size, or if a size has no times.
    """
    if not len(nbytes) or len(nbytes) != len(seconds):
        raise ValueError(
            f"alpha_beta: {len(nbytes)} sizes and times for {len(seconds)}; measure at least one "
            "size, and give the seconds of each"
        )
    size = np.asarray(nbytes, dtype=float)
    low, median, high = np.stack([np.percentile(s, [10, 50, 90]) for s in seconds], axis=1)
    smooth = np.geomspace(size[0], size[-1], 200)
    line = alpha + beta * smooth
    with style():
        figure, (above, below) = plt.subplots(
            2, figsize=(WIDTH, 4.2), sharex=True, layout="constrained"
        )
        bars = np.stack([median - low, high - median]) * 1e6
        dots = {"fmt": "o", "ms": 4, "color": color(0), "elinewidth": 1, "ecolor": QUIET}
        above.errorbar(size, median * 1e6, bars, label="measured", **dots)
        above.plot(smooth, line * 1e6, color=color(1), label="α + β × bytes", zorder=3)
        above.set(yscale="log")
        above.yaxis.set_major_formatter("{x:,g}")
        below.plot(size, size / median / 1e9, "o", ms=4, color=color(0))
        below.plot(smooth, smooth / line / 1e9, color=color(1))
        below.set(ylim=(0, None), xlabel="message")
        unit(above, "microseconds")
        unit(below, "GB/s")
        below.set_xscale("log", base=2)
        ticks = _labelled(size.tolist(), 6)
        below.set_xticks(ticks, [size_name(t) for t in ticks])
        for axes in (above, below):
            axes.grid(axis="y")
            axes.minorticks_off()
        if title:
            figure.suptitle(title)
        ends = (median[-1], "measured", color(0)), (line[-1], "α + β × bytes", color(1))
        name_ends(above, [(seconds * 1e6, words, paint) for seconds, words, paint in ends])
    return figure


def _labelled(sizes: Sequence[float], most: float) -> list[float]:
    """The sizes, ascending, whose names fit below a logarithmic axis: `most` pieces of it."""
    room = np.log2(sizes[-1] / sizes[0]) / most
    kept = [sizes[0]]
    for size in sizes[1:]:
        if np.log2(size / kept[-1]) >= room:
            kept.append(size)
    return kept


def size_name(nbytes: float) -> str:
    """A number of bytes in the largest unit that it fills: ``4194304`` is ``4 MiB``."""
    unit, name = next((u, n) for u, n in UNITS if nbytes >= u or u == 1)
    return f"{nbytes / unit:g} {name}"


def race(rows: Sequence[Mapping]) -> Figure:
    """Draw times of several ways to all_reduce against the size, and what was predicted.

    rows: each with ranks, bytes, way, median, p10, p90 and predicted (µs), as the result of
    ``benchmarks/all_reduce_race.py`` has them. A panel for each number of ranks; dots and bars are
    measured, lines predicted. Raises ValueError without rows.
    """
    if not rows:
        raise ValueError("race: no rows; measure at least one size")
    ranks, ways = (list(dict.fromkeys(row[key] for row in rows)) for key in ("ranks", "way"))
    across = min(2, len(ranks))
    down = -(-len(ranks) // across)
    sizes = sorted({row["bytes"] for row in rows})
    ticks = _labelled(sizes, 2.2 if across > 1 else 5)
    looks: dict[str, Any] = {
        way: Line2D([], [], color=paint, marker=mark, ls=dashes, lw=1, ms=4.5)
        for way, (paint, mark, dashes) in zip(ways, WAYS, strict=False)
    }
    looks["mark: measured"] = Line2D([], [], color=QUIET, marker="o", ls="", ms=4.5)
    looks["line: predicted"] = Line2D([], [], color=QUIET, lw=1)
    with style():
        figure, grid = plt.subplots(
            down, across, figsize=(WIDTH, (1.45 if across > 1 else 2.2) * down + 0.9),
            sharex=True, sharey=True, squeeze=False, layout="constrained",
        )  # fmt: skip
        panels = grid.ravel()
        for axes, n in zip(panels, ranks, strict=False):
            for i, way in enumerate(ways):
                here = [r for r in rows if r["ranks"] == n and r["way"] == way]
                _course(axes, here, way, *WAYS[i % len(WAYS)])
            axes.set_title(f"{n} ranks, milliseconds" if n == ranks[0] else f"{n} ranks")
            axes.grid(axis="y")
        panels[0].set(xscale="log", yscale="log")
        low, high = panels[0].get_ylim()
        few = (1.0, 2.0, 5.0) if high / low < DECADES else (1.0,)
        panels[0].yaxis.set_major_locator(LogLocator(subs=few))
        panels[0].yaxis.set_major_formatter("{x:g}")
        for axes in panels:
            axes.set_xticks(ticks, [size_name(t) for t in ticks])
            axes.minorticks_off()
        for axes in panels[len(ranks) :]:
            axes.axis("off")
            panels[len(ranks) - across].tick_params(labelbottom=True)
        key(figure, looks, columns=3)
    return figure


def _course(axes, rows: Sequence[Mapping], way: str, paint: str, mark: str, dashes: str) -> None:
    size = [row["bytes"] for row in rows]
    low, median, high, foretold = (
        np.array([row[key] for row in rows]) / 1e3 for key in ("p10", "median", "p90", "predicted")
    )
    axes.plot(size, foretold, dashes, color=paint, lw=1.25)
    bars = [median - low, high - median]
    dots = {"fmt": mark, "ms": 3.5, "color": paint, "elinewidth": 0.8}
    axes.errorbar(size, median, bars, label=way, **dots)


def bus_bandwidth(rows: Sequence[Mapping], nbytes: int, link: float) -> Figure:
    """Draw the bus bandwidth of every way at one size against the number of ranks.

    rows: as for `race`. nbytes: one of their sizes. link: bytes a second of one message, 1 / beta,
    drawn as a line. On the left an axis from 0, in GB/s (10^9 bytes). Raises ValueError if no row
    has that size.
    """
    rows = [row for row in rows if row["bytes"] == nbytes]
    if not rows:
        raise ValueError(f"bus_bandwidth: no row of {size_name(nbytes)}; give a size that is there")
    ways = list(dict.fromkeys(row["way"] for row in rows))
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 2.7), layout="constrained")
        axes.axhline(link / 1e9, color=QUIET, ls=":")
        axes.annotate("1 / β of the ping-pong", (1, link / 1e9), (0, -4), ha="right", va="top",
                      xycoords=("axes fraction", "data"), textcoords="offset points",
                      color=QUIET, bbox={"boxstyle": "round,pad=0.1", "fc": PAPER, "ec": "none"},
                      zorder=1)  # fmt: skip
        ends = []
        for i, way in enumerate(ways):
            here = [row for row in rows if row["way"] == way]
            n, median = (np.array([row[key] for row in here]) for key in ("ranks", "median"))
            speed = 2 * (n - 1) / n * nbytes / median / 1e3  # bytes / µs = MB/s
            paint, mark, _ = WAYS[i % len(WAYS)]
            axes.plot(n, speed, f"{mark}-", ms=4.5, lw=1.25, color=paint, label=way)
            ends.append((float(speed[-1]), way, paint))
        axes.set(xlabel="ranks", ylim=(0, None))
        axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
        axes.set_xticks(sorted({row["ranks"] for row in rows}))
        unit(axes, f"bus bandwidth at {size_name(nbytes)}, GB/s")
        axes.grid(axis="y")
        name_ends(axes, ends)
    return figure


def race_errors(rows: Sequence[Mapping], sizes: Collection[int]) -> Table:
    """The error of each prediction in per cent, a row for a number of ranks and one of `sizes`.

    rows: as for `race`, with error.
    """
    ways = list(dict.fromkeys(row["way"] for row in rows))
    by_place = {}
    for row in rows:
        if row["bytes"] in sizes:
            place = by_place.setdefault((row["bytes"], row["ranks"]), {})
            place[row["way"]] = f"{row['error']:+.0f} %"
    return Table(
        ["size", "ranks", *ways],
        [
            [size_name(size), str(n), *(errors.get(way, "") for way in ways)]
            for (size, n), errors in sorted(by_place.items())
        ],
    )
