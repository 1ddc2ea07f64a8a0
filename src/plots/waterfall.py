"""One large speed-up, taken apart into the factors that multiply to it."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from plots.marks import beside
from plots.theme import BAD, QUIET, WIDTH, color, style


def speed_up_steps(steps: Sequence[Mapping], first: str = "") -> Figure:
    """Draw each step as a bar from the factor reached before it to the one after it, log axis.

    steps: mappings of "name", "times" (how many times as fast as the step before) and "share" (of
    the whole, by logarithm); `first` names where they begin, at 1. Raises ValueError without steps.
    """
    if not steps:
        raise ValueError("speed_up_steps: no steps; give it rows that follow one another")
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 0.44 * len(steps) + 0.8), layout="constrained")
        reached, most = 1.0, 1.0
        for y, step in enumerate(steps):
            end = reached * step["times"]
            ground = color(0) if end >= reached else BAD
            axes.barh(y, end - reached, 0.56, left=reached, color=ground)
            if y < len(steps) - 1:  # down to where the next one begins
                axes.plot([end, end], [y + 0.28, y + 0.72], color=QUIET, lw=1)
            beside(axes, max(end, reached), y, f"{step['times']:.2f}x, {step['share']:.0%}")
            reached, most = end, max(most, end)
        axes.set_xscale("log")
        ticks = [n for n in (0.5, 1, 2, 4, 8, 16, 32) if n <= most * 1.1]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}x"))
        axes.set_yticks(range(len(steps)), [step["name"] for step in steps])
        axes.set(ylim=(len(steps) - 0.4, -0.6), xlim=(0.9, most * 1.6))
        axes.set_xlabel(f"times as fast as {first}" if first else "times as fast")
    return figure
