"""Mixtures of experts: how many tokens go from rank to rank, and what each expert gets."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from plots.marks import key
from plots.theme import INK, PAPER, QUIET, WIDTH, color, style

ACROSS = 2  # panels beside each other
GAP, BAR = 0.07, 0.05  # between ranks, of all tokens; of a panel's width
SHARE = 100  # per cent


def token_routes(received: Mapping[str, Sequence[Sequence[int]]]) -> Figure:
    """Draw how many tokens each rank sent to each: a ribbon in the sender's colour, to scale.

    received: by name, for every rank, what it got from each rank, itself included. Left of the
    ribbons stand the senders; right of them, what arrived in all. All panels have one scale.
    Raises ValueError where there is nothing to draw, or where the numbers are not rank by rank.
    """
    if not received:
        raise ValueError("token_routes: nothing arrived; give it {name: by rank, from each rank}")
    for name, rows in received.items():
        if not len(rows) or {len(row) for row in rows} != {len(rows)}:
            raise ValueError(f"token_routes: {name!r} has not a number from each rank for each")
    whole = max(sum(map(sum, rows)) for rows in received.values()) or 1
    down = -(-len(received) // ACROSS)
    with style():
        figure, grid = plt.subplots(
            down, ACROSS, figsize=(WIDTH, 2.6 * down), squeeze=False, layout="constrained"
        )
        for axes in grid.flat:
            axes.axis("off")
        for axes, (name, rows) in zip(grid.flat, received.items(), strict=False):
            _routes(axes, name, np.asarray(rows) / whole, np.asarray(rows).sum(axis=1))
    return figure


def _routes(axes: Axes, name: str, parts: np.ndarray, arrived: np.ndarray) -> None:
    """parts: [to][from], of all tokens."""
    count = len(parts)
    axes.set(xlim=(-0.42, 1.42), ylim=(1 + GAP * (count - 1), 0))
    axes.set_title(name, loc="center")
    leave = _starts(parts.sum(axis=0))
    arrive = _starts(parts.sum(axis=1))
    outgoing, incoming = leave.copy(), arrive.copy()
    for source in range(count):
        for target in range(count):
            high = parts[target, source]
            if high:
                ends = outgoing[source], incoming[target]
                axes.add_patch(PathPatch(_ribbon(*ends, high), fc=color(source), alpha=0.6, lw=0))
            outgoing[source] += high
            incoming[target] += high
    for rank in range(count):
        for x, top, high in (
            (-BAR, leave[rank], parts[:, rank].sum()),
            (1, arrive[rank], parts[rank].sum()),
        ):
            axes.add_patch(Rectangle((x, top), BAR, max(high, 0.004), fc=color(rank)))
        for x, middle, words, ink, side in (
            (-2 * BAR, leave[rank] + parts[:, rank].sum() / 2, f"rank {rank}", QUIET, "right"),
            (1 + 2 * BAR, arrive[rank] + parts[rank].sum() / 2, f"{arrived[rank]:,}", INK, "left"),
        ):
            axes.text(x, middle, words, ha=side, va="center", color=ink)


def _starts(heights: np.ndarray) -> np.ndarray:
    """Where each begins, if they stand below each other with a gap."""
    return np.concatenate([[0.0], heights.cumsum()[:-1]]) + GAP * np.arange(len(heights))


def _ribbon(left: float, right: float, high: float) -> Path:
    """From the height `left` at 0 to `right` at 1, as wide as `high` all the way."""
    upper = [(0.0, left), (0.5, left), (0.5, right), (1.0, right)]
    lower = [(1.0, right + high), (0.5, right + high), (0.5, left + high), (0.0, left + high)]
    curve = [Path.CURVE4] * 3
    return Path([*upper, *lower], [Path.MOVETO, *curve, Path.LINETO, *curve])


def expert_loads(loads: Mapping[str, Sequence[Sequence[float]]], ranks: int) -> Figure:
    """Draw each expert's share of the tokens, step by step, in the colour of its rank.

    loads: by name of a training, for every step the tokens that chose each expert. ranks: each
    holds equally many experts, in order. The lines are where ranks meet if all have equal shares.
    Raises ValueError without a step, or where the ranks do not divide the experts.
    """
    found = {name: np.asarray(steps, dtype=float) for name, steps in loads.items()}
    if not found or not all(steps.size for steps in found.values()):
        raise ValueError("expert_loads: no steps; give it {name: [steps][experts]}")
    experts = next(iter(found.values())).shape[1]
    if experts % ranks:
        raise ValueError(f"expert_loads: {ranks} ranks cannot hold equally many of {experts}")
    down = -(-len(found) // ACROSS)
    with style():
        figure, grid = plt.subplots(
            down, ACROSS, figsize=(WIDTH, 1.75 * down + 0.4), squeeze=False, sharey=True,
            sharex=True, layout="constrained",
        )  # fmt: skip
        for axes in grid.flat[len(found) :]:
            axes.axis("off")
        for axes, (name, steps) in zip(grid.flat, found.items(), strict=False):
            _shares(axes, name, steps, ranks)
        for axes in grid[-1]:
            axes.set_xlabel("step")
        key(figure, {f"rank {rank}": color(rank) for rank in range(ranks)}, columns=4)
    return figure


def _shares(axes: Axes, name: str, steps: np.ndarray, ranks: int) -> None:
    shares = SHARE * steps / steps.sum(axis=1, keepdims=True)
    each = steps.shape[1] // ranks
    colors = [color(expert // each) for expert in range(steps.shape[1])]
    axes.stackplot(range(len(steps)), shares.T, colors=colors, ec=PAPER, lw=0.6)
    for rank in range(1, ranks):
        axes.axhline(SHARE * rank / ranks, color=INK, lw=1, ls=":")
    axes.set(title=name, xlim=(0, len(steps) - 1), ylim=(0, SHARE))
    axes.yaxis.set_major_formatter("{x:.0f} %")
