"""Global batches cut for worlds of several sizes: the ranks change, the samples do not."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from rankbook.plots.style import color, ink_on, style

CELL = 0.34  # inches
MOST = 16  # samples: more in a row would not be read on a phone


def batch_cut(steps: Sequence[Sequence[Sequence[int]]]) -> Figure:
    """Draw a row for each step: the samples of its global batch, in the colour of their rank.

    steps: for each step the samples of each rank, in the order of the ranks. A number in a cell
    is a sample's. Raises ValueError without a step, and for more than 16 samples in one.
    """
    longest = max((sum(map(len, step)) for step in steps), default=0)
    if not 0 < longest <= MOST:
        raise ValueError(f"batch_cut: steps of 1 to {MOST} samples can be drawn, not {longest}")
    ranks = max(map(len, steps))
    with style():
        figure, axes = plt.subplots(
            figsize=(1.9 + CELL * longest, 0.7 + 1.25 * CELL * len(steps)), layout="constrained"
        )
        for row, step in enumerate(steps):
            column = 0
            for rank, samples in enumerate(step):
                for sample in samples:
                    _cell(axes, row, column, rank, sample)
                    column += 1
        names = [f"step {n}, {len(step)} ranks" for n, step in enumerate(steps, 1)]
        axes.set_yticks([row + 0.4 for row in range(len(steps))], names)
        axes.set(xlim=(0, longest), ylim=(len(steps), -0.1), xticks=[])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        patches = [Patch(facecolor=color(rank), label=f"rank {rank}") for rank in range(ranks)]
        figure.legend(handles=patches, loc="outside lower center", ncols=4, fontsize=8.5)
    return figure


def _cell(axes, row: int, column: int, rank: int, sample: int) -> None:
    ground = color(rank)
    axes.add_patch(Rectangle((column, row), 1, 0.8, facecolor=ground, ec="white", lw=1.2))
    axes.text(column + 0.5, row + 0.4, str(sample), ha="center", va="center", size=8,
              color=ink_on(ground))  # fmt: skip
