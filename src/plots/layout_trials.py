"""Which ways of putting pipeline, data and tensor parallelism together are right, by layout."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots.marks import word_lines
from plots.pipelines import GROUND, ON_GROUND, VISIBLE
from plots.theme import INK, LINE, PAPER, QUIET, WIDTH, style

ROW = 0.4  # inches: two lines of words
HEAD = 0.62  # of the three dimensions of a layout


def layout_table(outcomes: Iterable) -> Figure:
    """Draw one row a way, one column a layout, in the order in which they come.

    outcomes: `rankbook.parallel.trials.try_layout`'s, or mappings of the same fields. A percentage
    is the error of the clipped gradient or of its norm, whichever is larger, in the worst step.
    Trials that were not made stay empty. Raises ValueError without outcomes.
    """
    found = [outcome if isinstance(outcome, Mapping) else vars(outcome) for outcome in outcomes]
    if not found:
        raise ValueError("layout_table: no outcomes; give it what try_layout returned")
    layouts, ways = (
        list(dict.fromkeys(outcome[key] for outcome in found)) for key in ("layout", "way")
    )
    with style():
        size = WIDTH, HEAD + ROW * len(ways)
        figure, axes = plt.subplots(figsize=size, layout="constrained")
        axes.set(xlim=(0, max(3, len(layouts))), ylim=(len(ways), 0), yticks=[])
        axes.set_xticks([i + 0.5 for i in range(len(layouts))], [""] * len(layouts))
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        for x, layout in enumerate(layouts):
            word_lines(axes, (x + 0.5, -0.8), _head(layout), ha="center", color=QUIET)
        for y, way in enumerate(ways):
            word_lines(
                axes,
                (-0.08, y + 0.5),
                way.replace(", ", ",\n").replace(" over dp", "\nover dp"),
                ha="right",
                color=QUIET,
            )
        for outcome in found:
            _cell(axes, layouts.index(outcome["layout"]), ways.index(outcome["way"]), outcome)
    return figure


def _head(layout: str) -> str:
    """One line a dimension: "pp 2"."""
    return layout.replace("=", " ").replace(",", "\n")


def _cell(axes: Axes, x: int, y: int, outcome: Mapping) -> None:
    verdict = outcome["verdict"]
    edge = {"edgecolor": LINE if verdict == "cannot run" else PAPER, "lw": 0.8}
    place = (x + 0.02, y + 0.04)
    axes.add_patch(plt.Rectangle(place, 0.96, 0.92, facecolor=GROUND[verdict], **edge))
    center = {"ha": "center", "color": ON_GROUND.get(verdict, INK)}
    word_lines(axes, (x + 0.5, y + 0.5), _words(outcome), **center)


def _words(outcome: Mapping) -> str:
    verdict = outcome["verdict"]
    if verdict == "cannot run":
        return "–"
    worst = max([*outcome["errors"], *outcome["norms"]], default=0.0)
    if verdict == "SILENTLY WRONG":
        return f"WRONG\n{worst:.0%}" if worst > VISIBLE else "WRONG"
    if verdict == "raises" and outcome["step"] > 1:
        return f"raises\nstep {outcome['step']}"
    return verdict
