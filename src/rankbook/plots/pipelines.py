"""Which wrappings are right in which pipelines, as they were measured."""

import math
from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rankbook.plots.theme import COLORS, ink_on, style

# the words tell the three apart without the colours
GROUND = {"right": "#cfe3d3", "raises": COLORS[1], "SILENTLY WRONG": COLORS[3]}


def wrapping_table(outcomes: Iterable) -> Figure:
    """Draw one row a wrapping, one column a schedule, in the order in which they come.

    outcomes: `rankbook.parallel.Outcome`, or mappings of the same fields. The percentage is the
    error of the gradient, of its norm. Trials that were not made stay empty. Raises ValueError
    without outcomes.
    """
    found = [outcome if isinstance(outcome, Mapping) else vars(outcome) for outcome in outcomes]
    if not found:
        raise ValueError("wrapping_table: no outcomes; give it what try_wrapping returned")
    schedules = list(dict.fromkeys(outcome["schedule"] for outcome in found))
    wrappings = list(dict.fromkeys(outcome["wrapping"] for outcome in found))
    with style():
        size = 1.75 + 0.98 * len(schedules), 0.5 + 0.5 * len(wrappings)
        figure, axes = plt.subplots(figsize=size, layout="constrained")
        axes.set(xlim=(0, len(schedules)), ylim=(len(wrappings), 0))
        axes.set_xticks([i + 0.5 for i in range(len(schedules))], schedules)
        axes.set_yticks([i + 0.5 for i in range(len(wrappings))], wrappings)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        for outcome in found:
            x, y = schedules.index(outcome["schedule"]), wrappings.index(outcome["wrapping"])
            ground = GROUND[outcome["verdict"]]
            box = plt.Rectangle((x + 0.03, y + 0.05), 0.94, 0.9, color=ground, lw=0)
            axes.add_patch(box)
            center = {"ha": "center", "va": "center", "color": ink_on(ground), "size": 7.5}
            axes.text(x + 0.5, y + 0.5, _words(outcome), **center)
    return figure


def _words(outcome: Mapping) -> str:
    error = outcome["error"]
    wrong = not math.isnan(error) and error > 1e-3
    off = f"{error:.0%} off" if wrong else ""
    if outcome["verdict"] == "right":
        return "right"
    if outcome["verdict"] == "raises":
        return f"{off}, then\nraises" if wrong else f"raises\nin step {outcome['step']}"
    missing = f"\n{outcome['missing']} missing" if outcome["missing"] else ""
    return f"WRONG\n{off}{missing}"
