"""A rank's memory through one step, part by part, and which strategy is the cheapest that fits."""

from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from rankbook.plots.strategies import MIB, NAMES, PARTS
from rankbook.plots.theme import COLORS, INK, style

NOTHING = "#ffffff"
PHASES = ("forward", "backward", "update")


def step_memory(tapes: Mapping[str, Any]) -> Figure:
    """Draw the live bytes of a step as stacked areas, one panel a name, all to one scale.

    tapes: name to what `rankbook.speed.strategies.watch` gave: `moments`, mappings of part to bytes
    after each operation, and `begins`, the operation at which each of `PHASES` begins. Raises
    ValueError without tapes.
    """
    if not tapes:
        raise ValueError("step_memory: there is nothing to draw; give it {name: tape}")
    with style():
        figure, panels = plt.subplots(
            len(tapes), 1, figsize=(6.8, 2.1 * len(tapes) + 0.6), layout="constrained",
            sharey=True, squeeze=False,
        )  # fmt: skip
        for axes, (name, tape) in zip(panels[:, 0], tapes.items(), strict=True):
            _panel(axes, name, tape)
        top = max(axes.get_ylim()[1] for axes in panels[:, 0])
        panels[0, 0].set_ylim(0, top * 1.1)
        panels[-1, 0].set_xlabel("operations of the step, in their order")
        patches = [Patch(color=ground, label=NAMES.get(p, p)) for p, ground in PARTS.items()]
        figure.legend(handles=patches, loc="outside upper center", ncols=3, fontsize=8.5)
    return figure


def _panel(axes, name: str, tape: Any) -> None:
    """One step; its fullest moment is marked, with its MiB."""
    x = np.arange(len(tape.moments))
    heights = np.array([[m.get(part, 0) / MIB for m in tape.moments] for part in PARTS])
    axes.stackplot(x, heights, colors=list(PARTS.values()), step="post", lw=0)
    total = heights.sum(axis=0)
    at = int(total.argmax())
    axes.plot([at], [total[at]], marker="v", color=INK, ms=5)
    axes.annotate(f"{total[at]:.1f} MiB", (at, total[at]), (7, 1), textcoords="offset points",
                  fontsize=8.5)  # fmt: skip
    for phase in PHASES[1:]:
        axes.axvline(tape.begins[phase], color=INK, lw=0.8, ls=":")
    ends = [*(tape.begins[phase] for phase in PHASES), len(x)]
    for phase, begin, end in zip(PHASES, ends, ends[1:], strict=False):
        axes.text((begin + end) / 2, 0.97, phase, transform=axes.get_xaxis_transform(),
                  ha="center", va="top", fontsize=8.5)  # fmt: skip
    axes.set(xlim=(0, len(x)), ylabel="MiB", xticks=[])
    axes.set_title(name, loc="left")


def cheapest_ways(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> Figure:
    """Draw a map: parameters against ranks, coloured by the way that is the cheapest that fits.

    rows: mappings of "parameters", "ranks" and "way", a name, or None where nothing fits, for each
    pair of a grid. names: of all ways, the cheapest first. Raises ValueError without rows.
    """
    found = {(row["ranks"], row["parameters"]): row["way"] for row in rows}
    names = list(names)
    if not found:
        raise ValueError("cheapest_ways: there are no rows; give it a grid of ranks and parameters")
    ranks = sorted({n for n, _ in found})
    sizes = sorted({p for _, p in found})
    number = {name: i for i, name in enumerate(names)} | {None: len(names)}
    grid = np.array([[number[found[n, p]] for p in sizes] for n in ranks])
    colors = [*COLORS[: len(names)], NOTHING]
    norm = BoundaryNorm(np.arange(len(names) + 2) - 0.5, len(names) + 1)
    with style():
        figure, axes = plt.subplots(figsize=(6.8, 3.6), layout="constrained")
        edges = np.append(sizes, sizes[-1] ** 2 / sizes[-2])
        axes.pcolormesh(edges, np.arange(len(ranks) + 1) - 0.5, grid, norm=norm,
                        cmap=ListedColormap(colors), edgecolors="white", lw=0.2)  # fmt: skip
        axes.set(xscale="log", xlabel="parameters", ylabel="ranks", xlim=(edges[0], edges[-1]))
        axes.set_yticks(range(len(ranks)), [str(n) for n in ranks])
        seen = [name for name in names if number[name] in grid]
        patches = [Patch(color=colors[number[name]], label=name) for name in seen]
        if len(names) in grid:
            patches.append(Patch(fc=NOTHING, ec=INK, lw=0.8, label="nothing fits"))
        figure.legend(handles=patches, loc="outside upper center", ncols=3, fontsize=8.5)
    return figure
