"""Who owns the loop: the parts of a run, and which of them a clock has measured."""

import statistics
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.marks import key
from plots.theme import INK, LINE, PAPER, WIDTH, color, ink_on, style

PARTS = ("making and wrapping", "the loop", "closing")
GROUNDS = (LINE, color(0), color(2))
WIDE = 0.1  # of the axis: what a value needs to stand inside its part


def owner_parts(
    runs: Mapping[str, Sequence[tuple[float, float, float]]],
    timed: Mapping[str, tuple[int, int]] | None = None,
) -> Figure:
    """Draw one stacked bar an owner: the median milliseconds of each of `PARTS`.

    runs: by owner, the seconds of the three parts in each of several runs. timed: by owner, the
    first and the last part (from 0) that some clock has measured; a line below the bar shows it.
    Raises ValueError without runs.
    """
    if not runs or not all(runs.values()):
        raise ValueError("owner_parts: an owner has no runs; give it three times for each run")
    middle = {
        owner: [1e3 * float(statistics.median(part)) for part in zip(*each, strict=True)]
        for owner, each in runs.items()
    }
    longest = max(sum(part for part in parts) for parts in middle.values())
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 0.62 * len(runs) + 1.1), layout="constrained")
        for y, (owner, parts) in enumerate(middle.items()):
            _bar(axes, y, parts, longest)
            if timed and owner in timed:
                first, last = timed[owner]
                start, end = sum(parts[:first]), sum(parts[: last + 1])
                axes.plot([start, end], [y + 0.36] * 2, color=INK, marker="|", ms=7, lw=1.5)
        axes.set_yticks(range(len(middle)), list(middle))
        axes.set(ylim=(len(middle) - 0.4, -0.5), xlim=(0, longest * 1.02), xlabel="ms of a run")
        names: dict = dict(zip(PARTS, GROUNDS, strict=True))
        if timed:
            line = Line2D([], [], color=INK, marker="|", lw=1.5)
            names["what the first clock measured"] = line
        key(figure, names, columns=2)
    return figure


def _bar(axes, y: float, parts: Sequence[float], longest: float) -> None:
    left = 0.0
    for width, ground in zip(parts, GROUNDS, strict=True):
        axes.barh(y, width, 0.5, left=left, color=ground, ec=PAPER, lw=0.8)
        if width > WIDE * longest:
            at, ink = left + width / 2, ink_on(ground)
            axes.text(at, y, f"{width:.0f}", ha="center", va="center", color=ink)
        left += width
