"""How many samples were seen once, twice and never, under several settings."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from rankbook.plots.style import INK, QUIET, color, ink_on, style

COLORS = {"never": "white", "once": color(2), "twice or more": color(1)}
HATCH = {"never": "////"}


def counts(audits: Mapping[str, Mapping[str, object]]) -> Figure:
    """A bar for each setting: the samples that nobody, that one and that several batches held.

    audits: a `rankbook.data.Seen` by title of the row, then by title of the column. Every bar has
    the width of its set, and says the numbers. Raises ValueError without an audit.
    """
    columns = list(dict.fromkeys(title for row in audits.values() for title in row))
    if not columns:
        raise ValueError("counts: no audit; give it what gather_seen returned, by row and column")
    with style():
        figure, grid = plt.subplots(
            1, len(columns), figsize=(6.8, 0.7 + 0.34 * len(audits)), sharey=True,
            squeeze=False, layout="constrained",
        )  # fmt: skip
        for axes, title in zip(grid[0], columns, strict=True):
            for y, row in enumerate(audits.values()):
                if title in row:
                    _bar(axes, y, row[title])
            axes.set_title(title, size=8.5)
            axes.set(xlim=(0, 1), xticks=[], ylim=(len(audits) - 0.45, -0.55))
            axes.spines[["left", "bottom"]].set_visible(False)
            axes.tick_params(left=False)
        grid[0, 0].set_yticks(range(len(audits)), list(audits), size=8.5)
        patches = [
            Patch(facecolor=ground, label=label, ec=QUIET, lw=0.6, hatch=HATCH.get(label))
            for label, ground in COLORS.items()
        ]
        figure.legend(handles=patches, loc="outside lower center", ncols=3, fontsize=8.5)
    return figure


def _bar(axes, y: int, audit) -> None:
    left = 0.0
    parts = (audit.never, audit.once, audit.twice + audit.more)
    for (label, ground), number in zip(COLORS.items(), parts, strict=True):
        share = number / audit.total
        look = {"color": ground, "ec": QUIET, "lw": 0.6, "hatch": HATCH.get(label)}
        axes.barh(y, share, left=left, height=0.72, **look)
        if number:
            ink = INK if ground == "white" else ink_on(ground)
            box = {"boxstyle": "round,pad=0.15", "fc": ground, "ec": "none"}
            axes.text(left + share / 2, y, number, ha="center", va="center", size=8.5,
                      color=ink, bbox=box if label in HATCH else None)  # fmt: skip
        left += share
