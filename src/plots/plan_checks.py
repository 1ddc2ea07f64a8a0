"""What a plan predicts, against what others have published."""

from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.marks import key
from plots.theme import GRID, INK, PAPER, QUIET, WIDTH, color, style

MARKERS = "osD^vP*X"


def plan_checked(rows: Iterable[Mapping[str, Any]], tolerance: float, words: str) -> Figure:
    """Draw what was predicted against what others have published, a point a configuration.

    rows: {"source", "predicted", "published"} and, where the tool's assumptions were chosen with
    it, "fitted": those points are hollow. words: of both axes, with the unit. The band is
    `tolerance` wide, to both sides of what would be right. Raises ValueError without rows.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("plan_checked: no rows; give it predictions and what was published")
    sources = list(dict.fromkeys(row["source"] for row in rows))
    values = [row[name] for row in rows for name in ("predicted", "published")]
    ends = np.array([min(values) / 1.4, max(values) * 1.4])
    with style():
        size = WIDTH, 3.5 + 0.1 * len(sources)
        figure, axes = plt.subplots(figsize=size, layout="constrained")
        axes.fill_between(ends, ends * (1 - tolerance), ends * (1 + tolerance), color=GRID, lw=0)
        axes.plot(ends, ends, color=QUIET, lw=1)
        looks: dict[str, Any] = {f"within {tolerance:.0%}": GRID}
        for number, source in enumerate(sources):
            marker = MARKERS[(number + number // 8) % len(MARKERS)]  # colours come again after 8
            look: dict[str, Any] = {"marker": marker, "color": color(number), "ls": ""}
            for fitted in (False, True):
                own = [r for r in rows if r["source"] == source and bool(r.get("fitted")) == fitted]
                face: dict[str, Any] = {"markerfacecolor": PAPER} if fitted else {}
                axes.plot([r["published"] for r in own], [r["predicted"] for r in own], **look,
                          **face)  # fmt: skip
            looks[source] = Line2D([], [], **look)
        if any(row.get("fitted") for row in rows):
            hollow = {"marker": "o", "color": INK, "markerfacecolor": PAPER, "ls": ""}
            looks["hollow: fitted"] = Line2D([], [], **hollow)
        axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
        _plain_ticks(axes, *ends)
        axes.set(xlabel=f"published, {words}", ylabel=f"predicted, {words}")
        axes.grid(axis="both")
        key(figure, looks, columns=2)
    return figure


def _plain_ticks(axes: Axes, low: float, high: float) -> None:
    """1, 2, 5, 10, ... along both axes, as plain numbers; more or fewer where these do not suit."""
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    steps = (1, 1.5, 2, 3, 5, 7) if high / low < 8 else (1, 2, 5) if high / low < 300 else (1,)
    ticks = [step * power for power in powers for step in steps if low <= step * power <= high]
    for set_ticks in (axes.set_xticks, axes.set_yticks):
        set_ticks(ticks, [f"{tick:,g}" for tick in ticks])
    axes.minorticks_off()
