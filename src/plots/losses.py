"""Losses: of a training as it goes on, and of several that should be one."""

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator

from plots.marks import name_ends
from plots.theme import INK, QUIET, WIDTH, color, powers, style, unit
from plots.vector import bundle

MARKS = ("-", "--", "-.", ":")
FLOOR = 1e-9  # the lowest difference that the logarithmic axis shows


class LearningCurve:
    """Perplexity against optimizer steps, shown in the notebook's cell that makes it.

    steps: how many there will be. lines: what to compare with, name to perplexity, each drawn as a
    horizontal line. What is noted appears with `draw`, in place of what was shown before.
    """

    def __init__(self, steps: int, lines: Mapping[str, float]):
        with style():
            self.figure, axes = plt.subplots(figsize=(WIDTH, 3.0), layout="constrained")
            axes.set(xlim=(0, steps), yscale="log", xlabel="optimizer step")
            unit(axes, "perplexity")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.minorticks_off()
            axes.grid(axis="y")
            for name, value in lines.items():
                axes.axhline(value, color=QUIET, ls="--")
                axes.annotate(f"{name}: {value:.0f}", (0, value), (4, 3), color=INK,
                              textcoords="offset points")  # fmt: skip
            (self._train,) = axes.plot([], [], color=color(2), label="training, each step")
            (self._valid,) = axes.plot([], [], "o-", color=color(0), label="validation")
            axes.legend(loc="upper right", labelcolor="linecolor")
        self._axes = axes
        plt.close(self.figure)  # or the end of the cell would show it once more
        self._handle = _display(self.figure)

    def train(self, step: int, perplexity: float) -> None:
        """Note the perplexity of the batch of optimizer step `step`, counted from 1."""
        _append(self._train, step, perplexity)

    def valid(self, step: int, perplexity: float) -> None:
        """Note the validation perplexity after `step` optimizer steps."""
        _append(self._valid, step, perplexity)

    def draw(self) -> None:
        """Show what was noted so far."""
        self._axes.relim()
        self._axes.autoscale_view(scalex=False)
        self._handle.update(bundle(self.figure), raw=True)


def _append(line: Line2D, x: float, y: float) -> None:
    xs, ys = map(np.asarray, line.get_data())
    line.set_data([*xs, x], [*ys, y])


def _display(figure: Figure) -> Any:
    """The handle with which the notebook updates what it shows; the only figure that needs one."""
    from IPython.display import display

    return display(bundle(figure), raw=True, display_id=True)


def loss_curves(curves: Mapping[str, tuple[int, Sequence[float]]], average: int = 1) -> Figure:
    """Draw one line a training: the loss against the samples seen.

    curves: name to (samples of a step, loss of each step). average: how many samples the losses
    are averaged over, so that small batches are as smooth as large ones; a step at least. Every
    second line is dashed, so that one below another can be seen. Raises ValueError without a curve,
    or for an empty one.
    """
    if not curves or not all(losses for _, losses in curves.values()):
        raise ValueError("loss_curves: there is nothing to draw; give it the losses of a training")
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 2.9), layout="constrained")
        named = []
        for i, (name, (samples, losses)) in enumerate(curves.items()):
            together = max(1, average // samples)
            ends = [*range(0, len(losses), together), len(losses)]
            means = [sum(losses[a:b]) / (b - a) for a, b in pairwise(ends)]
            seen = [samples * end for end in ends[1:]]
            dashes, width = ("--", 1.5) if i % 2 else ("-", 2.2)
            axes.plot(seen, means, color=color(i), label=name, ls=dashes, lw=width)
            named.append((means[-1], name, color(i)))
        axes.set(xlabel="samples seen", xlim=(0, None))
        unit(axes, "training loss")
        axes.grid(axis="y")
        name_ends(axes, named)
    return figure


def growing_batches(
    curves: Mapping[str, Sequence[Sequence[tuple[int, float]]]], change: int
) -> Figure:
    """Draw one line a way of training: the median loss of its seeds against the samples seen.

    curves: name to one curve a seed, each of points (samples seen, loss), the same samples for all
    of a name. A band reaches from the lowest to the highest. change: samples after which the
    trainings differ; marked. Raises ValueError without a curve, or for an empty one.
    """
    if not curves or not all(of and all(of) for of in curves.values()):
        raise ValueError("growing_batches: there is nothing to draw; give it points of a training")
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 2.9), layout="constrained")
        ends = []
        for number, (name, of) in enumerate(curves.items()):
            seen = [samples for samples, _ in of[0]]
            losses = np.array([[loss for _, loss in curve] for curve in of])
            look = {"ls": MARKS[number % len(MARKS)], "color": color(number)}
            axes.plot(seen, np.median(losses, 0), label=name, **look)
            ends.append((float(np.median(losses, 0)[-1]), name, color(number)))
            if len(of) > 1:
                axes.fill_between(seen, losses.min(0), losses.max(0), color=color(number),
                                  alpha=0.15, lw=0)  # fmt: skip
        axes.axvline(change, color=QUIET, lw=1)
        axes.annotate("the world grows", (change, 1), (4, 2), color=INK, va="top",
                      xycoords=("data", "axes fraction"), textcoords="offset points")  # fmt: skip
        axes.set(xlabel="samples seen", xlim=(0, None))
        unit(axes, "loss over all samples")
        axes.grid(axis="y")
        name_ends(axes, ends)
    return figure


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
    colors: dict[int, str] = {
        size: color(n) for n, size in enumerate(dict.fromkeys(sizes[s] for s in losses))
    }
    with style():
        figure, (above, below) = plt.subplots(
            2, figsize=(WIDTH, 3.6), height_ratios=(3, 2), sharex=True, layout="constrained"
        )
        above.plot(list(control), list(control.values()), color=QUIET, lw=5, alpha=0.35)
        last = max(control)
        words = {"ha": "right", "va": "bottom", "color": QUIET, "transform": above.transAxes}
        above.text(1, 1.02, "wide band: never interrupted", **words)
        for size, steps in groupby(sorted(losses), key=sizes.__getitem__):
            steps = list(steps)
            off = [max(abs(losses[step] - control[step]), FLOOR) for step in steps]
            above.plot(steps, [losses[s] for s in steps], "o-", ms=4, color=colors[size])
            below.semilogy(steps, off, "o", ms=4, color=colors[size])
            late = steps[0] > 0.8 * last
            below.text(steps[-1] if late else steps[0], 3e-5, f"{size} ranks", color=colors[size],
                       ha="right" if late else "left")  # fmt: skip
        below.axhline(1e-5, color=QUIET, ls="--", lw=1)
        below.set(xlabel="step", ylim=(FLOOR / 2, 4e-4), yticks=(1e-9, 1e-7, 1e-5))
        below.minorticks_off()
        powers(below.yaxis)
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
        unit(above, "loss")
        unit(below, "off by")
        for axes in (above, below):
            axes.grid(axis="y")
    return figure
