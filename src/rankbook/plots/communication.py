"""Collectives: what they leave on each rank, how a ring passes them on, and what they cost."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from rankbook.plots.tables import Table
from rankbook.plots.theme import INK, QUIET, color, ink_on, style

SUM = "#eceff2"  # the ground of a number that is nobody's alone
UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def collectives(
    before: Sequence,
    after: Sequence[Mapping],
    sums: Collection[str] = ("all_reduce", "reduce_scatter"),
) -> Figure:
    """Draw each rank's numbers before, and after each of several collectives.

    before: [ranks][numbers], no number twice. after: for every rank, what each collective left
    there: name to 1-D numbers, or None for nothing. A number has the colour of the rank that it
    was on before; the results of the collectives in `sums` have none.
    Raises ValueError without ranks, or if the two are not of the same ones.
    """
    if not len(before) or len(before) != len(after):
        raise ValueError(
            f"collectives: {len(before)} ranks before and {len(after)} after; give it a row of "
            "numbers and a mapping for each rank"
        )
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


def ring_steps(messages: Iterable) -> Figure:
    """Draw who sent which chunk to whom in each step, and when.

    messages: those of all ranks, each with step, chunk, source, target, start and end (seconds, of
    one clock), such as `rankbook.parallel.ring.Message`. Above, a ring for every step, the second
    half of the steps in the second row. Below, the same messages in time, one row a rank.
    Raises ValueError without messages.
    """
    messages = sorted(messages, key=lambda m: (m.step, m.source))
    if not messages:
        raise ValueError("ring_steps: no messages; a ring of one rank sends none")
    steps = sorted({m.step for m in messages})
    ranks = sorted({m.source for m in messages})
    across, zero = -(-len(steps) // 2), min(m.start for m in messages)
    with style():
        figure = plt.figure(figsize=(6.8, 6.6))
        grid = figure.add_gridspec(3, across, height_ratios=[1, 1, 0.95], hspace=0.3)
        for i, step in enumerate(steps):
            axes = figure.add_subplot(grid[i // across, i % across])
            _ring(axes, [m for m in messages if m.step == step], len(ranks))
            axes.set_title(f"step {step}: {_when(messages, step, zero)}", size=9)
        _timeline(figure.add_subplot(grid[2, :]), messages, ranks, zero)
    return figure


def _when(messages: Sequence, step: int, zero: float) -> str:
    first = min(m.start for m in messages if m.step == step) - zero
    last = max(m.end for m in messages if m.step == step) - zero
    return f"{first * 1e3:.1f} to {last * 1e3:.1f} ms"


def _ring(axes, messages: Sequence, count: int) -> None:
    angles = np.pi / 2 - 2 * np.pi * np.arange(count) / count  # rank 0 on top, then clockwise
    places = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    axes.set(xlim=(-1.45, 1.45), ylim=(-1.35, 1.35), aspect="equal")
    axes.axis("off")
    for m in messages:
        arrow = {"arrowstyle": "-|>", "color": color(m.chunk), "lw": 1.8, "shrinkA": 10}
        arrow |= {"shrinkB": 10, "connectionstyle": "arc3,rad=-0.2"}
        here, there = places[m.source], places[m.target]
        axes.annotate("", there, here, arrowprops=arrow)
        across = np.array([here[1] - there[1], there[0] - here[0]])  # to the left of the arrow
        x, y = (here + there) / 2 + 0.22 * across
        _label(axes, x, y, m.chunk)
    for rank, (x, y) in enumerate(places):
        axes.plot(x, y, "o", ms=17, mfc="white", mec=QUIET)
        axes.text(x, y, str(rank), ha="center", va="center", color=INK)


def _timeline(axes, messages: Sequence, ranks: Sequence[int], zero: float) -> None:
    end = max(m.end for m in messages) - zero
    for m in messages:
        start, length = (m.start - zero) * 1e3, (m.end - m.start) * 1e3
        bar = color(m.chunk)
        axes.barh(m.source, length, left=start, height=0.62, color=bar, ec="white", lw=0.8)
        if length > 0.02 * end * 1e3:  # else the number would be wider than the bar
            middle = start + length / 2
            axes.text(middle, m.source, m.chunk, ha="center", va="center", color=ink_on(bar))
    axes.set(yticks=ranks, yticklabels=[f"rank {r}" for r in ranks], xlabel="milliseconds")
    axes.invert_yaxis()
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False)


def _label(axes, x: float, y: float, chunk: int) -> None:
    ground = color(chunk)
    box = {"boxstyle": "round,pad=0.2", "fc": ground, "ec": "none"}
    axes.text(x, y, str(chunk), ha="center", va="center", size=8, color=ink_on(ground), bbox=box)


def alpha_beta(
    nbytes: Sequence[float], seconds: Sequence, alpha: float, beta: float, title: str = ""
) -> Figure:
    """Draw measured times and the line ``alpha + beta * nbytes`` (s, s/byte) over the sizes.

    nbytes: [sizes]. seconds: [sizes][repeats]; the dot is the median, the bar reaches from the 10th
    to the 90th percentile. On the right, the same as bytes a second. Raises ValueError without a
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
        figure, (left, right) = plt.subplots(1, 2, figsize=(6.8, 3.1), layout="constrained")
        bars = np.stack([median - low, high - median]) * 1e6
        dots = {"fmt": "o", "ms": 3.5, "color": color(0), "elinewidth": 1, "ecolor": QUIET}
        left.errorbar(size, median * 1e6, bars, label="measured", **dots)
        left.plot(smooth, line * 1e6, color=color(1), label="alpha + beta × bytes", zorder=3)
        left.set(yscale="log", ylabel="microseconds")
        left.legend(loc="upper left")
        right.plot(size, size / median / 1e9, "o", ms=3.5, color=color(0))
        right.plot(smooth, smooth / line / 1e9, color=color(1))
        right.set(ylabel="GB/s", ylim=(0, None))
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            ticks = size[:: max(1, len(size) // 5)]
            axes.set_xticks(ticks, [size_name(t) for t in ticks], rotation=30)
            axes.set_xlabel("message")
            axes.grid(True)
            axes.minorticks_off()
        figure.suptitle(title, size="medium")
    return figure


def size_name(nbytes: float) -> str:
    """A number of bytes in the largest unit that it fills: ``4194304`` is ``4 MiB``."""
    unit, name = next((u, n) for u, n in UNITS if nbytes >= u or u == 1)
    return f"{nbytes / unit:g} {name}"


def all_reduce_table(results: Iterable[Mapping]) -> Table:
    """One row a result of ``benchmarks/all_reduce.py``, and one for a kind that has none yet.

    results: `recorded("all_reduce")`. alpha in microseconds, 1 / beta in GB/s (10^9 bytes).
    """
    results = list(results)
    rows = [_all_reduce_row(result) for result in results]
    for kind in ("CPU", "GPU"):
        if not any(result["kind"] == kind for result in results):
            rows.append([kind, "", "", "", "", "not measured yet"])
    return Table(["where", "ranks", "backend", "alpha", "1 / beta", "measured"], rows)


def _all_reduce_row(result: Mapping) -> list[str]:
    alpha, beta = result["fit"]["alpha_seconds"], result["fit"]["beta_seconds_per_byte"]
    return [
        f"{result['where']}, torch {result['libraries']['torch']}",
        str(result["ranks"]),
        result["backend"],
        f"{alpha * 1e6:.0f} µs",
        f"{1e-9 / beta:.2f} GB/s" if beta else "not seen",
        result["when"],
    ]
