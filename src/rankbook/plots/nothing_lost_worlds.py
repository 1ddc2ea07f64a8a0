"""The losses of a run whose world changed its size, on those of a run that nothing happened to."""

from collections.abc import Mapping
from itertools import groupby

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rankbook.plots.style import QUIET, color, style

FLOOR = 1e-9  # the lowest difference that the logarithmic axis shows


def world_losses(
    losses: Mapping[int, float], sizes: Mapping[int, int], control: Mapping[int, float]
) -> Figure:
    """Draw losses by step in the colour of the world size, and below how far off they are.

    losses, control: the loss of each step, of the run and of the uninterrupted one. sizes: the
    world size of each step. Raises ValueError if the two runs have not the same steps, or a step
    has no size.
    """
    if not losses or losses.keys() != control.keys() or losses.keys() - sizes.keys():
        raise ValueError("world_losses: both runs need the same steps, and each step a world size")
    colors = {size: color(n) for n, size in enumerate(dict.fromkeys(sizes[s] for s in losses))}
    with style():
        figure, (above, below) = plt.subplots(
            2, figsize=(6.4, 3.9), height_ratios=(2, 1), sharex=True, layout="constrained"
        )
        above.plot(list(control), list(control.values()), color=QUIET, lw=5, alpha=0.35,
                   label="never interrupted")  # fmt: skip
        named = set()
        for size, steps in groupby(sorted(losses), key=sizes.get):
            steps = list(steps)
            off = [max(abs(losses[step] - control[step]), FLOOR) for step in steps]
            label = None if size in named else f"{size} ranks"
            above.plot(steps, [losses[s] for s in steps], "o-", ms=3.5, lw=1.4,
                       color=colors[size], label=label)  # fmt: skip
            below.semilogy(steps, off, "o", ms=3.5, color=colors[size])
            named.add(size)
        below.axhline(1e-5, color=QUIET, ls="--", lw=1)
        below.set(xlabel="step", ylabel="off by", ylim=(FLOOR / 2, 1e-4))
        above.set_ylabel("loss")
        for axes in (above, below):
            axes.grid(axis="y")
        figure.legend(loc="outside lower center", ncols=5, fontsize=8.5)
    return figure
