"""Pipelines as predicted: beside what was recorded, and at sizes that no laptop has."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from plots.marks import key, name_ends
from plots.theme import QUIET, SMALLEST, WIDTH, color, style

WORK, WITHOUT, PREDICTED, RECORDED = color(0), color(1), color(2), to_rgba(color(7), 0.4)


def predictions(rows: Iterable[Mapping], tolerance: float = 0.05) -> Figure:
    """Draw how long a step takes of each schedule: its work, as predicted, and as recorded.

    rows: {"schedule", "work", "bare", "predicted", "recorded"}, in seconds: of one rank's work; of
    the step as predicted without overheads, with them, and as recorded. The mark of a prediction
    is as wide as `tolerance` of it, to both sides. Raises ValueError without rows.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("predictions: no rows; record a schedule and predict it first")
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 0.36 * len(rows) + 1.1), layout="constrained")
        for line, row in enumerate(rows):
            work, bare, predicted, recorded = (
                row[name] * 1e3 for name in ("work", "bare", "predicted", "recorded")
            )
            axes.barh(line, recorded, 0.72, color=RECORDED)
            axes.barh(line, work, 0.72, color=WORK)
            axes.plot([bare] * 2, [line - 0.36, line + 0.36], color=WITHOUT, lw=2)
            axes.barh(line, 2 * tolerance * predicted, 0.26, left=(1 - tolerance) * predicted,
                      color=PREDICTED)  # fmt: skip
            beside = 1.03 * max(recorded, (1 + tolerance) * predicted)
            off = f"{predicted / recorded - 1:+.1%}"
            axes.text(beside, line, off, va="center", color=QUIET)
        axes.set(yticks=range(len(rows)), yticklabels=[row["schedule"] for row in rows])
        axes.set(xlabel="milliseconds a step", ylim=(len(rows) - 0.4, -0.6))
        axes.set_xlim(0, 1.2e3 * max(row["recorded"] for row in rows))
        words = "predicted without overheads"
        key(figure, {"work of a rank": WORK, words: Line2D([], [], color=WITHOUT, lw=2),
                     "recorded": RECORDED, f"predicted ± {tolerance:.0%}": PREDICTED},
            columns=2)  # fmt: skip
    return figure


def idle_by_ranks(cases: Mapping[str, Iterable[Mapping]], assumed: str = "") -> Figure:
    """Draw the idle share against the number of ranks, a panel for each case.

    cases: what is assumed in a case, to its rows of `rankbook.parallel.pipeline.sweep`. assumed:
    what holds in all of them; both are written into the picture, `assumed` in the lines in which it
    is given. Of lines that coincide, the thinner one lies on top. Raises ValueError without rows.
    """
    cases = {title: list(rows) for title, rows in cases.items()}
    if not cases or not all(cases.values()):
        raise ValueError("idle_by_ranks: no rows; let sweep simulate plans that can run")
    names = list(dict.fromkeys(row["schedule"] for rows in cases.values() for row in rows))
    with style():
        figure, panels = plt.subplots(
            len(cases), 1, figsize=(WIDTH, 1.6 * len(cases) + 1.1), sharex=True, sharey=True,
            squeeze=False, layout="constrained",
        )  # fmt: skip
        for axes, (title, rows) in zip(panels[:, 0], cases.items(), strict=True):
            for i, name in enumerate(names):
                points = sorted((r["ranks"], r["idle"]) for r in rows if r["schedule"] == name)
                x, y = zip(*points, strict=True) if points else ((), ())
                axes.plot(x, y, color=color(i), lw=5.5 * 0.75**i, marker="o", ms=3, label=name)
            axes.set_title(title, loc="left")
            axes.grid(axis="y")
        counts = sorted({row["ranks"] for rows in cases.values() for row in rows})
        axes.set_xscale("log", base=2)
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.minorticks_off()
        axes.set(xlabel="ranks", ylim=(0, None))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        figure.supylabel("idle share, 1 - work / span", size=SMALLEST, color=QUIET)
        if assumed:
            figure.suptitle(assumed, x=0.01, ha="left", size=SMALLEST, color=QUIET)
        for axes in panels[:, 0]:
            ends = [(line.get_ydata()[-1], line.get_label(), line.get_color())
                    for line in axes.lines if len(line.get_ydata())]  # fmt: skip
            name_ends(axes, ends)
    return figure
