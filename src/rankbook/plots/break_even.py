"""When a step that is faster only after a wait, such as compiling, has made up for the wait."""

import math
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from rankbook.plots.style import INK, QUIET, color, style

Way = tuple[float, float]  # seconds before the first step, seconds a step


def break_even(ways: Mapping[str, Way], unit: str = "steps") -> Figure:
    """Draw the time since the start against the steps done: one line a way.

    ways: name to (seconds before the first step, seconds a step). The first is what the others
    are held against; a dot marks where one of them overtakes it, and the legend says after how
    many steps, or that it never will. Raises ValueError for fewer than two ways.
    """
    if len(ways) < 2:
        raise ValueError("break_even: one line crosses nothing; give it two ways or more")
    first = next(iter(ways.values()))
    crossings = {name: crossing(first, way) for name, way in ways.items()}
    end = 1.6 * max(at or 0.0 for at in crossings.values()) or _far(list(ways.values()))
    steps = np.array([0.0, end])
    with style():
        figure, axes = plt.subplots(figsize=(6.0, 3.4), layout="constrained")
        for i, (name, (wait, step)) in enumerate(ways.items()):
            label = _label(name, (wait, step), crossings[name] if i else math.nan, unit)
            axes.plot(steps, wait + step * steps, color=color(i), lw=1.8, label=label)
            if i and crossings[name]:
                _mark(axes, crossings[name], wait + step * crossings[name], color(i))
        axes.set(xlabel=unit, ylabel="seconds since the start", xlim=(0, end), ylim=(0, None))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.grid(True)
        figure.legend(loc="outside lower center", ncols=1, fontsize=8.5)
    return figure


def crossing(first: Way, other: Way) -> float | None:
    """How many steps until `other` has overtaken `first`.

    0 if it is ahead from the start; None if its step is not the faster one, and it never will.
    """
    wait, gain = other[0] - first[0], first[1] - other[1]
    if wait <= 0 and gain >= 0:
        return 0.0
    return wait / gain if gain > 0 else None


def _far(ways: list[Way]) -> float:
    """Where to end without a crossing: the longest wait is then half of the time."""
    return max(20.0, max(wait for wait, _ in ways) / min(step for _, step in ways))


def _label(name: str, way: Way, at: float | None, unit: str) -> str:
    wait, step = way
    cost = f"{_time(wait)}, then {_time(step)} a step" if wait else f"{_time(step)} a step"
    if at is None:
        return f"{name}: {cost}; never even"
    return f"{name}: {cost}" + (f"; even after {math.ceil(at):,} {unit}" if at > 0 else "")


def _mark(axes, at: float, seconds: float, ground: str) -> None:
    axes.vlines(at, 0, seconds, color=QUIET, lw=0.9, ls=":")
    axes.plot(at, seconds, "o", color=ground, mec=INK, ms=6, zorder=3)


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
