"""The recorded soak: after each kind of fault, how long until training goes on."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rankbook.plots.style import color, style

LOOKS = {"warm": {"color": color(0), "marker": "o"}, "cold": {"color": color(1), "marker": "s"}}


def soak(result: Mapping) -> Figure:
    """Draw a line a fault: the median of the seconds to the next step, from the 10th percentile
    to the 90th.

    result: of ``benchmarks/soak.py``, with rows of "processes" (warm or cold), "fault", "count",
    "median", "p10" and "p90", in seconds. Raises ValueError without a row.
    """
    if not result["rows"]:
        raise ValueError("soak: the result has no rows")
    names = list(dict.fromkeys(row["fault"] for row in result["rows"]))
    with style():
        figure, axes = plt.subplots(figsize=(6.4, 0.9 + 0.3 * len(names)), layout="constrained")
        for row in result["rows"]:
            y = names.index(row["fault"]) + (0.16 if row["processes"] == "cold" else -0.16)
            look = LOOKS[row["processes"]]
            axes.plot([row["p10"], row["p90"]], [y, y], lw=2, color=look["color"])
            axes.plot(row["median"], y, ms=5, **look)
        counts = {row["fault"]: row["count"] for row in reversed(result["rows"])}
        labels = [f"{name.replace('_', ' ')} ({counts[name]})" for name in names]
        axes.set_yticks(range(len(names)), labels)
        axes.set(ylim=(len(names) - 0.4, -0.6), xlim=(0, None), xlabel="seconds to the next step")
        axes.tick_params(left=False)
        axes.grid(axis="x")
        for name in dict.fromkeys(row["processes"] for row in result["rows"]):
            axes.plot([], [], ls="none", label=f"{name} processes", **LOOKS[name])
        figure.legend(loc="outside lower center", ncols=2, fontsize=8.5)
    return figure
