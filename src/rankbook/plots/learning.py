"""A learning curve that redraws itself in place while the training goes on."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from IPython.display import display
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from rankbook.plots.style import INK, QUIET, color, style


class LearningCurve:
    """Perplexity against optimizer steps, shown in the notebook's cell that makes it.

    steps: how many there will be. lines: what to compare with, name to perplexity, each drawn as a
    horizontal line. What is noted appears with `draw`, in place of what was shown before.
    """

    def __init__(self, steps: int, lines: Mapping[str, float]):
        with style():
            self.figure, axes = plt.subplots(figsize=(6.8, 3.4), layout="constrained")
            axes.set(xlim=(0, steps), yscale="log", xlabel="optimizer step", ylabel="perplexity")
            axes.yaxis.set_major_locator(LogLocator(subs=range(1, 10)))
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.minorticks_off()
            axes.grid(axis="y")
            for name, value in lines.items():
                axes.axhline(value, color=QUIET, lw=1, ls="--")
                axes.text(steps, value, f"{name}: {value:.0f}", ha="right", va="bottom", color=INK)
            (self._train,) = axes.plot([], [], color=color(2), lw=1.2, label="training, each step")
            (self._valid,) = axes.plot([], [], "o-", color=color(0), ms=4, label="validation")
            self.figure.legend(loc="outside upper center", ncols=2)
        plt.close(self.figure)  # or the end of the cell would show it once more
        self._handle = display(self.figure, display_id=True)

    def train(self, step: int, perplexity: float) -> None:
        """Note the perplexity of the batch of optimizer step `step`, counted from 1."""
        _append(self._train, step, perplexity)

    def valid(self, step: int, perplexity: float) -> None:
        """Note the validation perplexity after `step` optimizer steps."""
        _append(self._valid, step, perplexity)

    def draw(self) -> None:
        """Show what was noted so far."""
        axes = self._train.axes
        axes.relim()
        axes.autoscale_view(scalex=False)
        self._handle.update(self.figure)


def _append(line: Line2D, x: float, y: float) -> None:
    xs, ys = line.get_data()
    line.set_data([*xs, x], [*ys, y])
