"""The roofline of a machine, and where the operations of a step stand below it."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.marks import key
from plots.theme import INK, PAPER, QUIET, WIDTH, color, style, unit


def roofline(account: Any, machine: Any, seconds: Mapping[str, float] | None = None) -> Figure:
    """Draw the limits of `machine`, and each kind of operation of `account` at its intensity.

    account, machine: as `rankbook.speed.account` and `measure_machine` return them. seconds: how
    long each kind took, to draw what it reached, a dot under its limit; without it the kinds are
    marked on the roof, at the best that they could do. Raises ValueError where no operation of
    the account has both arithmetic and bytes.
    """
    kinds = {name: part for name, part in account.by_kind().items() if part.intensity > 0}
    if not kinds:
        raise ValueError("roofline: no operation with arithmetic; let account() run a whole step")
    lowest = min(part.intensity for part in kinds.values())
    ends = lowest / 3, max(20 * machine.ridge, 3 * _highest(kinds))
    x = np.geomspace(ends[0], ends[1], 200)
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 4.2), layout="constrained")
        for i, (name, product) in enumerate(sorted(machine.products.items(), key=lambda p: -p[1])):
            roof = np.minimum(product, x * machine.bytes_per_s)
            axes.plot(x, roof, color=color(i), lw=2)
            axes.annotate(f"{name} {_rate(product)}", (ends[1], product), (0, 4), ha="right",
                          textcoords="offset points", color=color(i))  # fmt: skip
        axes.text(0.02, 0.95, f"slope: memory, {machine.bytes_per_s / 1e9:.3g} GB/s",
                  color=QUIET, transform=axes.transAxes)  # fmt: skip
        looks = {}
        for i, (name, part) in enumerate(kinds.items()):
            words, look = _mark(axes, i, name, part, machine, (seconds or {}).get(name))
            looks[words] = look
        axes.set(xscale="log", yscale="log", xlim=ends, xlabel="arithmetic intensity, FLOP a byte")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter(lambda rate, _: f"{rate / 1e9:g}")
        unit(axes, "GFLOP/s")
        axes.grid(True, which="major")
        key(figure, looks, columns=2)
    return figure


def _highest(kinds: Mapping[str, Any]) -> float:
    return max(part.intensity for part in kinds.values())


def _mark(
    axes: Axes, i: int, name: str, part: Any, machine: Any, seconds: float | None
) -> tuple[str, Line2D]:
    """A kind: its limit as a ring, and what it reached as a dot, with a line between."""
    limit = part.flop / part.seconds(machine)
    look = {"marker": "os^Dvp<>"[i % 8], "ls": "", "ms": 7}
    axes.plot(part.intensity, limit, mfc=PAPER, mec=color(i), zorder=2, **look)
    if not seconds:
        return name, Line2D([], [], mfc=PAPER, mec=color(i), **look)
    reached = part.flop / seconds
    axes.vlines(part.intensity, reached, limit, color=color(i), lw=1, ls=":")
    axes.plot(part.intensity, reached, color=color(i), mec=INK, mew=0.8, zorder=3, **look)
    return f"{name}: {_rate(reached)}", Line2D([], [], color=color(i), mec=INK, mew=0.8, **look)


def _rate(flop_per_s: float) -> str:
    for name, size in (("TFLOP/s", 1e12), ("GFLOP/s", 1e9)):
        if flop_per_s >= size:
            return f"{flop_per_s / size:.3g} {name}"
    return f"{flop_per_s / 1e6:.3g} MFLOP/s"
