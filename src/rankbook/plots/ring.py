"""A ring all_reduce, from the messages that the ranks recorded."""

from collections.abc import Iterable, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from rankbook.plots.style import INK, QUIET, color, ink_on, style


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
