"""The soak: how long training stands still after each kind of fault."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.marks import key
from plots.theme import WIDTH, color, style

LOOKS = {"warm": (color(0), "o"), "cold": (color(1), "s")}  # of processes: colour, marker


def soak(result: Mapping) -> Figure:
    """Draw the seconds to the next step after each fault: the median, and the 10th to the 90th %.

    result: of ``benchmarks/soak.py``, with rows of "processes" (warm or cold), "fault", "count",
    "median", "p10" and "p90", in seconds. Raises ValueError without a row.
    """
    if not result["rows"]:
        raise ValueError("soak: the result has no rows; record some with benchmarks/soak.py")
    names = list(dict.fromkeys(row["fault"] for row in result["rows"]))
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 0.95 + 0.3 * len(names)), layout="constrained")
        for row in result["rows"]:
            y = names.index(row["fault"]) + (0.16 if row["processes"] == "cold" else -0.16)
            ground, mark = LOOKS[row["processes"]]
            axes.plot([row["p10"], row["p90"]], [y, y], lw=2, color=ground)
            axes.plot(row["median"], y, ms=5, color=ground, marker=mark, clip_on=False)
        counts = {row["fault"]: row["count"] for row in reversed(result["rows"])}
        labels = [f"{counts[name]} × {name.replace('_', ' ')}" for name in names]
        axes.set_yticks(range(len(names)), labels)
        axes.set(ylim=(len(names) - 0.4, -0.6), xlim=(0, None), xlabel="seconds to the next step")
        axes.tick_params(left=False)
        axes.grid(axis="x")
        seen = dict.fromkeys(row["processes"] for row in result["rows"])
        looks = {name: Line2D([], [], lw=2, color=LOOKS[name][0], marker=LOOKS[name][1])
                 for name in seen}  # fmt: skip
        key(figure, {f"{name} processes": look for name, look in looks.items()})
    return figure
