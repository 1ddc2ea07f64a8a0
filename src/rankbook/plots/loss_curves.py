"""Losses of several trainings against the samples that each has seen: equal ones lie on another."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rankbook.plots.style import color, style


def loss_curves(curves: Mapping[str, tuple[int, Sequence[float]]], average: int = 1) -> Figure:
    """Draw one line a training.

    curves: name to (samples of a step, loss of each step). average: how many samples the losses
    are averaged over, so that small batches are as smooth as large ones; a step at least. Every
    second line is dashed, so that one below another can be seen. Raises ValueError without curves.
    """
    if not curves:
        raise ValueError("loss_curves: there is nothing to draw")
    with style():
        figure, axes = plt.subplots(figsize=(6.8, 3.2), layout="constrained")
        for i, (name, (samples, losses)) in enumerate(curves.items()):
            together = max(1, average // samples)
            ends = [*range(0, len(losses), together), len(losses)]
            means = [sum(losses[a:b]) / (b - a) for a, b in pairwise(ends)]
            seen = [samples * end for end in ends[1:]]
            look = {"ls": "--", "lw": 1.8} if i % 2 else {"lw": 2.6}
            axes.plot(seen, means, color=color(i), label=name, **look)
        axes.set(xlabel="samples seen", ylabel="training loss", xlim=(0, None))
        axes.grid(axis="y")
        figure.legend(loc="outside lower center", ncols=2, fontsize=8.5)
    return figure
