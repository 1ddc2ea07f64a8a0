"""What more ranks bring: measured speed-up beside the ideal, with the efficiency of each point."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rankbook.plots.style import QUIET, color, style

MARKS = "osD^v"
PAPER = {"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none"}
LINE = 0.062  # of the axis: what a line of text needs


def scaling(rates: Mapping[str, Mapping[int, float]]) -> Figure:
    """Draw speed-up against ranks: one line a way, and dashed what would be ideal.

    rates: name to {ranks: samples (steps, epochs) a unit of time}, ranks as numbers or, as in
    JSON, as text; what stands at the smallest number of ranks is each line's own measure. Beside
    every further point stands its efficiency, the speed-up divided by the growth in ranks. Raises
    ValueError for a line of one point.
    """
    rates = {name: {int(n): rate for n, rate in points.items()} for name, points in rates.items()}
    if not rates:
        raise ValueError("scaling: there is nothing to draw")
    for name, points in rates.items():
        if len(points) < 2:
            raise ValueError(f"scaling: {name} has {len(points)} point; a line needs two")
    counts = sorted({ranks for points in rates.values() for ranks in points})
    top = max(counts[-1] / counts[0], *(max(_gains(p).values()) for p in rates.values())) * 1.06
    with style():
        figure, axes = plt.subplots(figsize=(5.4, 3.5), layout="constrained")
        ideal = [count / counts[0] for count in counts]
        axes.plot(counts, ideal, color=QUIET, ls="--", lw=1.2, label="ideal")
        for i, (name, points) in enumerate(rates.items()):
            gains = _gains(points)
            look = {"color": color(i), "marker": MARKS[i % len(MARKS)], "ms": 5, "label": name}
            axes.plot(list(gains), list(gains.values()), **look)
        for ranks in counts[1:]:
            _efficiencies(axes, rates, ranks, top)
        room = 0.16 * (counts[-1] - counts[0])  # for what stands beside the last point
        axes.set(xlabel="ranks", ylabel="times one rank" if counts[0] == 1 else "speed-up")
        axes.set(xlim=(counts[0] - room / 4, counts[-1] + room), ylim=(0, top), xticks=counts)
        axes.minorticks_off()
        axes.grid(True)
        figure.legend(loc="outside lower center", ncols=2, fontsize=8.5)
    return figure


def _gains(points: Mapping[int, float]) -> dict[int, float]:
    """Speed-up by number of ranks, in that order."""
    ranks = sorted(points)
    return {n: points[n] / points[ranks[0]] for n in ranks}


def _efficiencies(axes, rates: Mapping, ranks: int, top: float) -> None:
    """Beside the points at `ranks`, from the lowest up, none over another."""
    found = []
    for points in rates.values():
        gains = _gains(points)
        if ranks in gains and ranks > min(gains):
            found.append((gains[ranks], gains[ranks] * min(gains) / ranks))
    free = 0.0
    for gain, efficiency in sorted(found):
        height = max(gain, free)
        axes.annotate(f"{efficiency:.0%}", (ranks, height), (9, 0), textcoords="offset points",
                      va="center", size=8.5, bbox=PAPER)  # fmt: skip
        free = height + LINE * top
