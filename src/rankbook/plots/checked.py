"""What a switch was predicted to bring, beside what it brought."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rankbook.plots.theme import INK, QUIET, color, style


def predictions_checked(rows: Iterable[Mapping]) -> Figure:
    """Draw for each switch how many times as fast a step became, and what was predicted.

    rows: {"switch", "predicted"}, and where it was measured "measured", the median, with "p10" and
    "p90", of the ratios turn by turn (`rankbook.speed.gain`). Raises ValueError without rows.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("predictions_checked: no rows; predict a switch first")
    longest = max(max(row["predicted"], row.get("p90") or 0) for row in rows)
    with style():
        figure, axes = plt.subplots(figsize=(6.4, 0.5 * len(rows) + 1.1), layout="constrained")
        for y, row in enumerate(rows):
            first = y == 0
            if row.get("measured"):
                axes.barh(y, row["measured"], 0.6, color=color(2), label="measured" * first)
                axes.hlines(y, row["p10"], row["p90"], color=INK, lw=1.1,
                            label="10th to 90th percentile" * first)  # fmt: skip
            axes.plot([row["predicted"]] * 2, [y - 0.36, y + 0.36], color=color(1), lw=3,
                      label="predicted" * first)  # fmt: skip
            end = max(row["predicted"], row.get("p90") or 0)
            axes.text(end + 0.02 * longest, y, _words(row), va="center", size=8.5, color=INK)
        axes.axvline(1, color=QUIET, lw=0.8, ls=":", zorder=0)
        axes.set(yticks=range(len(rows)), yticklabels=[row["switch"] for row in rows])
        axes.set(xlabel="times as fast", xlim=(0, 1.45 * longest), ylim=(len(rows) - 0.4, -0.6))
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside lower center", ncols=3, fontsize=8.5)
    return figure


def _words(row: Mapping) -> str:
    words = f"{row['predicted']:.2f} predicted"
    return words + (f", {row['measured']:.2f} measured" if row.get("measured") else "")
