"""Collectives: what they leave on each rank, how a ring passes them on, and what they cost."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from rankbook.plots.tables import Table
from rankbook.plots.theme import INK, QUIET, color, ink_on, style

SUM = "#eceff2"  # the ground of a number that is nobody's alone
# colour, mark and line of each way in a race
WAYS = (
    (color(1), "s", "--"),
    (color(0), "o", "-"),
    (color(4), "^", "-."),
    (color(6), "D", ":"),
)
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
    _rank_axis(axes, ranks)


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
            ticks = _labelled(size.tolist(), 5)
            axes.set_xticks(ticks, [size_name(t) for t in ticks], rotation=30)
            axes.set_xlabel("message")
            axes.grid(True)
            axes.minorticks_off()
        figure.suptitle(title, size="medium")
    return figure


def _labelled(sizes: Sequence[float], most: int) -> list[float]:
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


def queue(messages: Sequence[Sequence]) -> Figure:
    """Draw what every rank spent on its messages, where one rank serves all others in turn.

    messages: for every rank, those that it sent and received, such as `Message`s of
    `rankbook.parallel.messages`. Rank 0's have the colour of the other rank. At the others, the
    time in which rank 0 was busy with somebody else is grey. Raises ValueError without messages.
    """
    if not any(len(own) for own in messages):
        raise ValueError("queue: no messages; a single rank sends none")
    zero = min(m.start for own in messages for m in own)
    served = {(m.source, m.target): m for m in messages[0]}
    with style():
        figure, axes = plt.subplots(figsize=(6.8, 0.45 * len(messages) + 0.75))
        for rank, own in enumerate(messages):
            for m in own:
                start = max(m.start, served[m.source, m.target].start)
                waited, peer = start - m.start, m.source or m.target
                if rank and waited > 0:
                    _bar(axes, rank, m.start - zero, waited, SUM, "")
                what = f"from {peer}" if m.source else f"to {peer}"
                _bar(axes, rank, start - zero, m.end - start, color(peer), "" if rank else what)
        _rank_axis(axes, range(len(messages)))
        figure.set_layout_engine("constrained")
    return figure


def _bar(axes, rank: int, start: float, length: float, ground: str, words: str) -> None:
    start, length = start * 1e3, length * 1e3
    axes.barh(rank, length, left=start, height=0.62, color=ground, ec="white", lw=0.8)
    middle, ink = start + length / 2, ink_on(ground)
    axes.text(middle, rank, words, ha="center", va="center", color=ink, size=8)


def _rank_axis(axes, ranks: Iterable[int]) -> None:
    axes.set(yticks=ranks, yticklabels=[f"rank {r}" for r in ranks], xlabel="milliseconds")
    axes.invert_yaxis()
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False)


def race(rows: Sequence[Mapping]) -> Figure:
    """Draw times of several ways to all_reduce against the size, and what was predicted.

    rows: each with ranks, bytes, way, median, p10, p90 and predicted (µs), as the result of
    ``benchmarks/all_reduce_race.py`` has them. A panel for each number of ranks; dots and bars are
    measured, lines predicted. Raises ValueError without rows.
    """
    if not rows:
        raise ValueError("race: no rows; measure at least one size")
    ranks, ways = (list(dict.fromkeys(row[key] for row in rows)) for key in ("ranks", "way"))
    across = min(4, len(ranks) + 1)
    down = -(-(len(ranks) + 1) // across)
    with style():
        shape = {"figsize": (6.8, 2.3 * down + 0.3), "layout": "constrained"}
        figure, grid = plt.subplots(down, across, sharex=True, sharey=True, squeeze=False, **shape)
        panels = grid.ravel()
        for axes, n in zip(panels, ranks, strict=False):
            for i, way in enumerate(ways):
                here = [r for r in rows if r["ranks"] == n and r["way"] == way]
                _course(axes, here, way, *WAYS[i % len(WAYS)])
            axes.set_title(f"{n} ranks")
            axes.grid(True)
        panels[0].set(xscale="log", yscale="log")
        sizes = sorted({row["bytes"] for row in rows})
        for axes in panels:
            axes.set_xticks(_labelled(sizes, 4))
            axes.set_xticklabels([size_name(t) for t in axes.get_xticks()], rotation=45)
            axes.minorticks_off()
        for axes in grid[:, 0]:
            axes.set_ylabel("milliseconds")
        axes = panels[len(ranks) - 1]
        axes.plot([], [], color=QUIET, label="line: predicted")
        handles, labels = axes.get_legend_handles_labels()
        for axes in panels[len(ranks) :]:
            axes.axis("off")
        panels[len(ranks)].legend(handles, labels, loc="center", fontsize=8)
    return figure


def _course(axes, rows: Sequence[Mapping], way: str, paint: str, mark: str, dashes: str) -> None:
    size = [row["bytes"] for row in rows]
    low, median, high, foretold = (
        np.array([row[key] for row in rows]) / 1e3 for key in ("p10", "median", "p90", "predicted")
    )
    axes.plot(size, foretold, dashes, color=paint, lw=1)
    bars = [median - low, high - median]
    dots = {"fmt": mark, "ms": 3.5, "color": paint, "elinewidth": 0.7}
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
        figure, axes = plt.subplots(figsize=(6.8, 2.9), layout="constrained")
        axes.axhline(link / 1e9, color=QUIET, ls=":", label="1 / beta of the ping-pong")
        for i, way in enumerate(ways):
            here = [row for row in rows if row["way"] == way]
            n, median = (np.array([row[key] for row in here]) for key in ("ranks", "median"))
            speed = 2 * (n - 1) / n * nbytes / median / 1e3  # bytes / µs = MB/s
            paint, mark, _ = WAYS[i % len(WAYS)]
            axes.plot(n, speed, f"{mark}-", ms=4, lw=1, color=paint, label=way)
        axes.set(xlabel="ranks", ylabel="bus bandwidth, GB/s", ylim=(0, None))
        axes.set_xticks(sorted({row["ranks"] for row in rows}))
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
        axes.set_title(size_name(nbytes))
        axes.grid(True)
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
