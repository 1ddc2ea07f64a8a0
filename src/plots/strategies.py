"""Strategies on many ranks: the bytes each one keeps on a rank, and what more ranks bring."""

from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from plots.marks import beside, key, name_ends
from plots.theme import INK, PAPER, QUIET, WIDTH, color, style, unit

PARTS = {
    "parameters": color(0),
    "gathered": color(6),
    "gradients": color(1),
    "state": color(2),
    "buffers": color(7),
    "activations": color(5),
}
NAMES = {"state": "optimizer state", "gathered": "gathered parameters"}
MIB = 2**20
HIGH = 0.36  # of a row: each of its two bars
MARKS = "osD^v"
BEHIND = {"boxstyle": "round,pad=0.1", "fc": PAPER, "ec": "none"}
LINE = 0.07  # of the axis: what a line of text needs


def rank_memory(rows: Iterable[Mapping]) -> Figure:
    """Draw two stacked bars a strategy: above what was measured, below what the formula says.

    rows: mappings of "strategy", "measured" and "formula". The latter two are what
    `rankbook.speed.strategies` gave, or mappings: "parameters", "gradients", "state" and others of
    `PARTS` (which may be absent) to bytes on one rank. Without a "formula" there is no second bar.
    Raises ValueError without rows.
    """
    rows = [
        {"strategy": row["strategy"]}
        | {kind: _plain(row.get(kind)) for kind in ("measured", "formula")}
        for row in rows
    ]
    if not rows:
        raise ValueError("rank_memory: no rows; give it what was measured for each strategy")
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 0.5 * len(rows) + 1.1), layout="constrained")
        longest = 0.0
        for y, row in enumerate(rows):
            end = _bar(axes, y - HIGH / 2, row["measured"])
            beside(axes, end, y - HIGH / 2, f"{end:,.1f}")
            longest = max(longest, end, _bar(axes, y + HIGH / 2, row["formula"], hatch="///"))
        axes.set_yticks(range(len(rows)), [row["strategy"] for row in rows])
        axes.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0, longest * 1.12), xlabel="MiB on a rank")
        axes.grid(axis="x")
        key(figure, _looks(rows), columns=2)
    return figure


def _plain(parts) -> dict[str, float]:
    """Bytes by part, in the order in which they are drawn."""
    if parts is None or isinstance(parts, Mapping):
        return dict(parts or {})
    return {name: getattr(parts, name, 0) for name in PARTS}


def _bar(axes, y: float, parts: Mapping[str, float], hatch: str | None = None) -> float:
    """One stacked bar, hatched or full; returns where it ends, in MiB."""
    left = 0.0
    for name, ground in PARTS.items():
        width = parts.get(name, 0) / MIB
        look: dict[str, Any] = {"color": ground}
        if hatch:
            look = {"fc": PAPER, "ec": ground, "hatch": hatch, "hatchcolor": ground, "lw": 0.8}
        if width:
            axes.barh(y, width, HIGH, left=left, **look)
        left += width
    return left


def _looks(rows: list[Mapping]) -> dict[str, Any]:
    seen = {name for row in rows for name, size in row["measured"].items() if size}
    looks: dict[str, Any] = {
        NAMES.get(name, name): ground for name, ground in PARTS.items() if name in seen
    }
    if any(row["formula"] for row in rows):
        looks["by the formula"] = {"fc": PAPER, "ec": INK, "hatch": "///", "lw": 0.8}
    return looks


def scaling(rates: Mapping[str, Mapping[int, float]]) -> Figure:
    """Draw speed-up against ranks: one line a way, and dashed what would be ideal.

    rates: name to {ranks: samples (steps, epochs) a unit of time}, ranks as numbers or, as in
    JSON, as text; what stands at the smallest number of ranks is each line's own measure. Beside
    every further point stands its efficiency, the speed-up divided by the growth in ranks. Raises
    ValueError for a line of one point.
    """
    rates = {name: {int(n): rate for n, rate in points.items()} for name, points in rates.items()}
    if not rates:
        raise ValueError("scaling: there is nothing to draw; give it {name: {ranks: rate}}")
    for name, points in rates.items():
        if len(points) < 2:
            raise ValueError(f"scaling: {name} has {len(points)} point; a line needs two")
    counts = sorted({ranks for points in rates.values() for ranks in points})
    top = max(counts[-1] / counts[0], *(max(_gains(p).values()) for p in rates.values())) * 1.06
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 3.2), layout="constrained")
        ideal = [count / counts[0] for count in counts]
        axes.plot(counts, ideal, color=QUIET, ls="--", lw=1.2, label="ideal")
        for i, (name, points) in enumerate(rates.items()):
            gains = _gains(points)
            look = {"color": color(i), "marker": MARKS[i % len(MARKS)], "ms": 5, "label": name}
            axes.plot(list(gains), list(gains.values()), **look)
        for ranks in counts[1:]:
            _efficiencies(axes, rates, ranks, top)
        room = 0.16 * (counts[-1] - counts[0])  # for what stands beside the last point
        axes.set_xlabel("ranks")
        unit(axes, "times one rank" if counts[0] == 1 else "speed-up")
        axes.set(xlim=(counts[0] - room / 4, counts[-1] + room), ylim=(0, top), xticks=counts)
        axes.minorticks_off()
        axes.grid(True)
        grounds = {name: color(i) for i, name in enumerate(rates)}
        ends = [(list(_gains(p).values())[-1], name, grounds[name]) for name, p in rates.items()]
        name_ends(axes, [(ideal[-1], "ideal", QUIET), *ends])
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
                      va="center", bbox=BEHIND)  # fmt: skip
        free = height + LINE * top
