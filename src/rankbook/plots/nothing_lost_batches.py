"""Losses of trainings that are one until the batch grows, and differ from there on."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rankbook.plots.style import INK, QUIET, color, style

MARKS = ("-", "--", "-.", ":")


def growing_batches(curves: Mapping[str, Sequence[tuple[int, float]]], change: int) -> Figure:
    """Draw one line a training: the loss against the samples seen.

    curves: name to (samples seen, loss). change: samples after which the trainings differ; marked.
    Raises ValueError without a curve, or for an empty one.
    """
    if not curves or not all(curves.values()):
        raise ValueError("growing_batches: there is nothing to draw")
    with style():
        figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
        for number, (name, curve) in enumerate(curves.items()):
            look = {"ls": MARKS[number % len(MARKS)], "lw": 1.8, "color": color(number)}
            axes.plot(*zip(*curve, strict=True), label=name, **look)
        axes.axvline(change, color=QUIET, lw=1)
        axes.annotate("the world grows", (change, 1), (4, -4), size=8.5, color=INK, va="top",
                      xycoords=("data", "axes fraction"), textcoords="offset points")  # fmt: skip
        axes.set(xlabel="samples seen", ylabel="loss over all samples", xlim=(0, None))
        axes.grid(axis="y")
        figure.legend(loc="outside lower center", ncols=2, fontsize=8.5)
    return figure
