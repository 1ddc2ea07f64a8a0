"""Meshes of ranks: what each dimension sends in a step, and how fast each layout is."""

from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.marks import beside, key
from plots.theme import INK, QUIET, WIDTH, color, style

DIMENSIONS = {"pp": color(0), "dp": color(1), "tp": color(4), "other": color(7)}
BAR, ROW, HEAD = 0.66, 0.27, 1.0  # of a row; inches
MEASURED, PREDICTED = to_rgba(color(7), 0.55), color(2)
UNITS = {"MiB": 2**20, "KiB": 2**10, "bytes": 1}


def layout_traffic(sent: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw what a rank sends in a step: a bar for each layout, a colour for each dimension.

    sent: name of the layout to {dimension: bytes}; or to the `by_dimension()` of
    `rankbook.comm.traffic`, of which the bytes round a ring are drawn. The sum stands beside the
    bar. Raises ValueError without layouts.
    """
    found = {
        name: {dimension: float(getattr(each, "ring", each)) for dimension, each in of_one.items()}
        for name, of_one in sent.items()
    }
    if not found:
        raise ValueError("layout_traffic: no layouts; give it {layout: {dimension: bytes}}")
    most = max(sum(of_one.values()) for of_one in found.values())
    name, size = next((n, s) for n, s in UNITS.items() if most >= s or s == 1)
    used = [d for d in DIMENSIONS if any(of_one.get(d) for of_one in found.values())]
    seen = [d for d in used if any(of_one.get(d, 0) > most / 200 for of_one in found.values())]
    with style():
        figure, axes = _rows(list(found), len(found))
        for line, of_one in enumerate(found.values()):
            left = 0.0
            for dimension in DIMENSIONS:
                width = of_one.get(dimension, 0.0) / size
                axes.barh(line, width, BAR, left=left, color=DIMENSIONS[dimension])
                left += width
            beside(axes, left, line, _short(left))
        axes.set(xlabel=f"{name} a rank sends in a step", xlim=(0, 1.18 * most / size))
        key(figure, {dimension: DIMENSIONS[dimension] for dimension in seen}, columns=4)
    return figure


def layout_pace(rows: Iterable[Mapping[str, Any]]) -> Figure:
    """Draw tokens per second of each layout: measured as a bar, foretold as a mark.

    rows: of book/results/layouts-cpu-2.json: "layout", "shard", "median", "p10", "p90" and, where
    it was foretold, "predicted". The line in a bar goes from the 10th to the 90th percentile;
    beside it stands how far the prediction is off. Raises ValueError without rows.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("layout_pace: no rows; give it those of a recorded result")
    with style():
        figure, axes = _rows([_name(row) for row in rows], len(rows))
        for line, row in enumerate(rows):
            axes.barh(line, row["median"], BAR, color=MEASURED)
            axes.plot([row["p10"], row["p90"]], [line, line], color=INK, lw=1.2)
            end = max(row["p90"], row.get("predicted", 0))
            if "predicted" in row:
                ends = [line - BAR / 2, line + BAR / 2]
                axes.plot([row["predicted"]] * 2, ends, color=PREDICTED, lw=3)
                off = f"{row['predicted'] / row['median'] - 1:+.0%}"
                axes.annotate(off, (end, line), (6, 0), textcoords="offset points", va="center",
                              color=QUIET)  # fmt: skip
        most = max(max(row["p90"], row.get("predicted", 0)) for row in rows)
        axes.set(xlabel="tokens per second", xlim=(0, 1.2 * most))
        looks = {"measured": MEASURED, "10th to 90th percentile": Line2D([], [], color=INK, lw=1.2)}
        if any("predicted" in row for row in rows):
            looks["predicted"] = Line2D([], [], color=PREDICTED, lw=3)
        key(figure, looks, columns=2)
    return figure


def _rows(names: list[str], count: int) -> tuple[Figure, Axes]:
    """A figure with a line for each of `names`, the first above."""
    figure, axes = plt.subplots(figsize=(WIDTH, ROW * count + HEAD), layout="constrained")
    axes.set(yticks=range(count), yticklabels=names, ylim=(count - 0.4, -0.6))
    return figure, axes


def _name(row: Mapping[str, Any]) -> str:
    """The layout, and how its replicas share the states, where they do: "dp=4 HSDP 2"."""
    shard = str(row.get("shard", "none"))
    if shard == "none":
        return row["layout"]
    return f"{row['layout']} {'FSDP2' if shard == 'fsdp' else f'HSDP {shard}'}"


def _short(value: float) -> str:
    """A length in three digits, but never as a power: "1.5", "5,473"."""
    if value < 0.01:
        return "< 0.01"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
