"""Time and bandwidth of a communication against the size of its message."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from rankbook.plots.style import QUIET, color, style

UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def alpha_beta(
    nbytes: Sequence[float], seconds: Sequence, alpha: float, beta: float, title: str = ""
) -> Figure:
    """Draw measured times and the line ``alpha + beta * nbytes`` (s, s/byte) over the sizes.

    nbytes: [sizes]. seconds: [sizes][repeats]; the dot is the median, the bar reaches from the 10th
    to the 90th percentile. On the right, the same as bytes a second.
    """
    size = np.asarray(nbytes, dtype=float)
    low, median, high = np.stack([np.percentile(s, [10, 50, 90]) for s in seconds], axis=1)
    smooth = np.geomspace(size[0], size[-1], 200)
    line = alpha + beta * smooth
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(6.8, 3.1), layout="constrained")
        bars = np.stack([median - low, high - median]) * 1e6
        dots = {"fmt": "o", "ms": 3.5, "color": color(0), "elinewidth": 1, "ecolor": QUIET}
        left.errorbar(size, median * 1e6, bars, label="measured", **dots)
        left.plot(smooth, line * 1e6, color=color(1), label="alpha + beta × bytes", zorder=3)
        left.set(yscale="log", ylabel="microseconds")
        left.legend(loc="upper left")
        right.plot(size, size / median / 1e9, "o", ms=3.5, color=color(0))
        right.plot(smooth, smooth / line / 1e9, color=color(1))
        right.set(ylabel="GB/s", ylim=(0, None))
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            ticks = size[:: max(1, len(size) // 5)]
            axes.set_xticks(ticks, [size_name(t) for t in ticks], rotation=30)
            axes.set_xlabel("message")
            axes.grid(True)
            axes.minorticks_off()
        figure.suptitle(title, size="medium")
    return figure


def size_name(nbytes: float) -> str:
    """``4194304`` is ``4 MiB``."""
    unit, name = next((u, n) for u, n in UNITS if nbytes >= u or u == 1)
    return f"{nbytes / unit:g} {name}"
