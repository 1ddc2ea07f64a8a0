"""Collectives from inside: what they leave on each rank, and who sends what to whom."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from plots.theme import GRID, INK, PAPER, QUIET, WIDTH, color, ink_on, style

SUM = GRID  # the ground of a number that is nobody's alone, and of a time in which nobody serves
ACROSS = 3  # panels beside each other
CELL, TITLE = 0.29, 0.42  # inches: a number's cell, and what stands above and below a panel
LABELS, GAP = 0.62, 0.3  # inches: the names of the ranks, and what lies between panels
RING = 1.62  # inches: one step's ring with its words
LETTER = 0.075  # inches: of a word in a bar


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
    names, width = list(after[0]), max(len(row) for row in before)
    cell = min(CELL, (WIDTH - LABELS - GAP * (ACROSS - 1)) / (ACROSS * width))
    high = len(before) * cell + TITLE
    total = high * (1 - (-len(names) // ACROSS))
    with style():
        figure = plt.figure(figsize=(WIDTH, total))

        def panel(row: int, column: int):
            left, bottom = LABELS + column * (width * cell + GAP), total - (row + 1) * high + 0.03
            size = width * cell / WIDTH, (high - TITLE) / total
            return figure.add_axes((left / WIDTH, bottom / total, *size))

        _panel(panel(0, 0), "before", before, width, owner)
        for i, name in enumerate(names):
            numbers = [rank[name] for rank in after]
            axes = panel(1 + i // ACROSS, i % ACROSS)
            _panel(axes, name, numbers, width, {} if name in sums else owner, i % ACROSS == 0)
    return figure


def _panel(
    axes, title: str, rows: Sequence, width: int, owner: Mapping, named: bool = True
) -> None:
    axes.set(xlim=(0, width), ylim=(len(rows), 0))
    axes.axis("off")
    axes.annotate(title, (0, 1), (1, 4), xycoords="axes fraction", textcoords="offset points",
                  weight="bold")  # fmt: skip
    for rank, numbers in enumerate(rows):
        if named:
            axes.text(-0.25, rank + 0.5, f"rank {rank}", ha="right", va="center", color=QUIET)
        if numbers is None:
            axes.text(0.5, rank + 0.5, "–", ha="center", va="center", color=QUIET)
            continue
        for i, number in enumerate(np.asarray(numbers).ravel()):
            ground = color(owner[float(number)]) if float(number) in owner else SUM
            shape = {"boxstyle": "round,pad=0,rounding_size=0.1", "fc": ground, "lw": 0}
            axes.add_patch(FancyBboxPatch((i + 0.04, rank + 0.04), 0.92, 0.92, **shape))
            look = {"ha": "center", "va": "center_baseline", "color": ink_on(ground)}
            axes.text(i + 0.5, rank + 0.5, f"{number:g}", **look)


def ring_steps(messages: Iterable) -> Figure:
    """Draw who sent which chunk to whom in each step, and when.

    messages: those of all ranks, each with step, chunk, source, target, start and end (seconds, of
    one clock), such as `rankbook.comm.all_reduce.ring.Message`. Above, a ring for every step: an
    arrow has the colour of the chunk that it carries. Below, the same messages in time, one row a
    rank. Raises ValueError without messages.
    """
    messages = sorted(messages, key=lambda m: (m.step, m.source))
    if not messages:
        raise ValueError("ring_steps: no messages; a ring of one rank sends none")
    steps = sorted({m.step for m in messages})
    ranks = sorted({m.source for m in messages})
    rows, zero = -(-len(steps) // ACROSS), min(m.start for m in messages)
    below = 0.3 * len(ranks) + 0.55
    with style():
        figure = plt.figure(figsize=(WIDTH, (RING + 0.2) * rows + below), layout="constrained")
        grid = figure.add_gridspec(rows + 1, ACROSS, height_ratios=[RING + 0.2] * rows + [below])
        for i, step in enumerate(steps):
            axes = figure.add_subplot(grid[i // ACROSS, i % ACROSS])
            _ring(axes, [m for m in messages if m.step == step], len(ranks))
            axes.set_title(f"step {step}", loc="center", pad=0)
            axes.text(0, -1.72, _when(messages, step, zero), ha="center", color=QUIET)
        _timeline(figure.add_subplot(grid[rows, :]), messages, ranks, zero)
    return figure


def _when(messages: Sequence, step: int, zero: float) -> str:
    first = min(m.start for m in messages if m.step == step) - zero
    last = max(m.end for m in messages if m.step == step) - zero
    return f"{first * 1e3:.1f} to {last * 1e3:.1f} ms"


def _ring(axes, messages: Sequence, count: int) -> None:
    angles = np.pi / 2 - 2 * np.pi * np.arange(count) / count  # rank 0 on top, then clockwise
    places = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    axes.set(xlim=(-1.45, 1.45), ylim=(-1.72, 1.3), aspect="equal")
    axes.axis("off")
    for m in messages:
        arrow = {"arrowstyle": "-|>,head_width=0.22,head_length=0.4", "color": color(m.chunk)}
        arrow |= {"lw": 1.5, "shrinkA": 10, "shrinkB": 9.5, "connectionstyle": "arc3,rad=-0.2"}
        here, there = places[m.source], places[m.target]
        axes.annotate("", there, here, arrowprops=arrow)
        across = np.array([here[1] - there[1], there[0] - here[0]])  # to the left of the arrow
        x, y = (here + there) / 2 + 0.27 * across
        _label(axes, x, y, m.chunk)
    for rank, (x, y) in enumerate(places):
        axes.plot(x, y, "o", ms=17, mfc=PAPER, mec=color(rank), mew=1.5)
        axes.text(x, y, str(rank), ha="center", va="center_baseline", color=INK)


def _label(axes, x: float, y: float, chunk: int) -> None:
    ground = color(chunk)
    box = {"boxstyle": "round,pad=0.18,rounding_size=0.15", "fc": ground, "ec": PAPER, "lw": 1}
    axes.text(x, y, str(chunk), ha="center", va="center", color=ink_on(ground), bbox=box)


def _timeline(axes, messages: Sequence, ranks: Sequence[int], zero: float) -> None:
    end = max(m.end for m in messages) - zero
    for m in messages:
        start, length = (m.start - zero) * 1e3, (m.end - m.start) * 1e3
        words = str(m.chunk) if length > 0.03 * end * 1e3 else ""  # else wider than the bar
        _bar(axes, m.source, start, length, color(m.chunk), words)
    _rank_axis(axes, ranks)


def queue(messages: Sequence[Sequence]) -> Figure:
    """Draw what every rank spent on its messages, where one rank serves all others in turn.

    messages: for every rank, those that it sent and received, such as `Message`s of
    `rankbook.comm.all_reduce.messages`. Rank 0's have the colour of the other rank. At the others,
    the time in which rank 0 was busy with somebody else is grey. Raises ValueError without
    messages.
    """
    if not any(len(own) for own in messages):
        raise ValueError("queue: no messages; a single rank sends none")
    zero = min(m.start for own in messages for m in own)
    end = max(m.end for own in messages for m in own)
    served = {(m.source, m.target): m for m in messages[0]}
    letter = LETTER * (end - zero) * 1e3 / (WIDTH - 0.7)  # milliseconds that are as wide
    with style():
        figure, axes = plt.subplots(
            figsize=(WIDTH, 0.38 * len(messages) + 0.6), layout="constrained"
        )
        for rank, own in enumerate(messages):
            for m in own:
                start = max(m.start, served[m.source, m.target].start)
                waited, peer = (start - m.start) * 1e3, m.source or m.target
                if rank and waited > 0:
                    words = "waits" if waited > 6 * letter else ""
                    _bar(axes, rank, (m.start - zero) * 1e3, waited, SUM, words)
                what, length = f"from {peer}" if m.source else f"to {peer}", (m.end - start) * 1e3
                words = what if not rank and length > (len(what) + 1) * letter else ""
                _bar(axes, rank, (start - zero) * 1e3, length, color(peer), words)
        _rank_axis(axes, range(len(messages)))
    return figure


def _bar(axes, rank: int, start: float, length: float, ground: str, words: str) -> None:
    axes.barh(rank, length, left=start, height=0.7, color=ground, ec=PAPER, lw=0.8)
    if words:
        middle, ink = start + length / 2, ink_on(ground)
        axes.text(middle, rank, words, ha="center", va="center_baseline", color=ink)


def _rank_axis(axes, ranks: Iterable[int]) -> None:
    axes.set(yticks=ranks, yticklabels=[f"rank {r}" for r in ranks], xlabel="milliseconds")
    axes.invert_yaxis()
    axes.margins(x=0.005)
