"""Bytes of parameters, gradients and optimizer state on a rank: measured beside the formula."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from rankbook.plots.style import INK, color, style

PARTS = {"parameters": color(0), "gradients": color(1), "state": color(2), "buffers": "#c9ced4"}
NAMES = {"state": "optimizer state", "buffers": "buffers"}
MIB = 2**20
HIGH = 0.36  # of a row: each of its two bars


def rank_memory(rows: Iterable[Mapping]) -> Figure:
    """Draw two stacked bars a strategy: above what was measured, below what the formula says.

    rows: mappings of "strategy", "measured" and "formula". The latter two are what
    `rankbook.speed.many` gave, or mappings: "parameters", "gradients", "state" and "buffers"
    (which may be absent) to bytes on one rank. Without a "formula" there is no second bar.
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
        figure, axes = plt.subplots(figsize=(6.8, 0.52 * len(rows) + 1.2), layout="constrained")
        longest = 0.0
        for y, row in enumerate(rows):
            end = _bar(axes, y - HIGH / 2, row["measured"])
            axes.text(end, y - HIGH / 2, f" {end:,.1f}", va="center", size=8.5)
            longest = max(longest, end, _bar(axes, y + HIGH / 2, row["formula"], hatch="///"))
        axes.set_yticks(range(len(rows)), [row["strategy"] for row in rows])
        axes.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0, longest * 1.12), xlabel="MiB on a rank")
        axes.spines["left"].set_visible(False)
        axes.tick_params(left=False)
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        figure.legend(handles=_legend(rows), loc="outside upper left", ncols=3, fontsize=8.5)
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
        look = {"fc": "white", "ec": ground, "hatch": hatch} if hatch else {"color": ground}
        if width:
            axes.barh(y, width, HIGH, left=left, lw=0.8, **look)
        left += width
    return left


def _legend(rows: list[Mapping]) -> list[Patch]:
    seen = {name for row in rows for name, size in row["measured"].items() if size}
    patches = [
        Patch(color=ground, label=NAMES.get(name, name))
        for name, ground in PARTS.items()
        if name in seen
    ]
    if any(row["formula"] for row in rows):
        patches.append(Patch(fc="white", ec=INK, hatch="///", lw=0.8, label="by the formula"))
    return patches
