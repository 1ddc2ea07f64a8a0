"""What a switch was predicted to bring, beside what it brought."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from plots.theme import INK, QUIET, WIDTH, color, style

# columns of numbers right of the bars, by points from their end: what they say, and its colour
COLUMNS = {54: ("measured", color(0)), 116: ("predicted", color(1))}


def predictions_checked(rows: Iterable[Mapping]) -> Figure:
    """Draw for each switch how many times as fast a step became, and what was predicted.

    rows: {"switch", "predicted"}, and where it was measured "measured", the median, with "p10" and
    "p90", of the ratios turn by turn (`rankbook.speed.gain`); the thin line reaches from one to the
    other. Raises ValueError without rows.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("predictions_checked: no rows; predict a switch first")
    longest = max(max(row["predicted"], row.get("p90") or 0) for row in rows)
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 0.42 * len(rows) + 0.95), layout="constrained")
        for y, row in enumerate(rows):
            if row.get("measured"):
                axes.barh(y, row["measured"], 0.56, color=color(0))
                axes.hlines(y, row["p10"], row["p90"], color=INK, lw=1.25)
            axes.plot([row["predicted"]] * 2, [y - 0.38, y + 0.38], color=color(1), lw=3)
            for column, (name, paint) in COLUMNS.items():
                _beside(axes, column, y, f"{row[name]:.2f}" if row.get(name) else "–", paint)
        for column, (name, paint) in COLUMNS.items():
            _beside(axes, column, -0.95, name, paint)
        axes.axvline(1, color=QUIET, lw=1, ls=":", zorder=0)
        axes.set(yticks=range(len(rows)), yticklabels=[row["switch"] for row in rows])
        axes.set(xlabel="times as fast", xlim=(0, 1.03 * longest), ylim=(len(rows) - 0.45, -0.55))
    return figure


def _beside(axes, column: int, y: float, words: str, paint: str) -> None:
    """Write into a column right of the bars; their heads say which colour is what."""
    axes.annotate(words, (1, y), (column, 0), xycoords=("axes fraction", "data"), ha="right",
                  va="center", textcoords="offset points", color=paint,
                  annotation_clip=False)  # fmt: skip
