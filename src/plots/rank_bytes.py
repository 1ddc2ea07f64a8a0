"""A rank's memory through one step, part by part, and which strategy is the cheapest that fits."""

from collections.abc import Iterable, Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

from plots.marks import key
from plots.plans import HELD, HELD_NAMES
from plots.strategies import MIB, NAMES, PARTS
from plots.theme import COLORS, INK, LINE, PAPER, QUIET, WIDTH, style, unit

NOTHING = PAPER
ORDER = ("parameters", "gathered", "gradients", "state", "optimizer", "buffers", "activations")
PAINTS = {part: (PARTS | HELD)[part] for part in (*ORDER, *HELD)}  # what stays lies below
WORDS = NAMES | HELD_NAMES
SEEN = 180  # moments of a step
PHASES = ("forward", "backward", "update")


def step_memory(tapes: Mapping[str, Any]) -> Figure:
    """Draw the live bytes of a step as stacked areas, one panel a name, all to one scale.

    tapes: name to what `rankbook.predict.memory.record_step` or `rankbook.speed.strategies.watch`
    gave: `moments`, mappings of part to bytes after each operation, and `begins`, the operation at
    which each of `PHASES` begins. Raises ValueError without tapes.
    """
    if not tapes:
        raise ValueError("step_memory: there is nothing to draw; give it {name: tape}")
    with style():
        figure, panels = plt.subplots(
            len(tapes), 1, figsize=(WIDTH, 1.9 * len(tapes) + 0.9), layout="constrained",
            sharey=True, squeeze=False,
        )  # fmt: skip
        for axes, (name, tape) in zip(panels[:, 0], tapes.items(), strict=True):
            _panel(axes, name, tape)
        top = max(axes.get_ylim()[1] for axes in panels[:, 0])
        panels[0, 0].set_ylim(0, top * 1.3)  # room for the names of the phases
        panels[-1, 0].set_xlabel("operations of the step, in their order")
        seen = {p for tape in tapes.values() for m in tape.moments for p, size in m.items() if size}
        looks = {WORDS.get(p, p): ground for p, ground in PAINTS.items() if p in seen}
        key(figure, looks, columns=2)
    return figure


def _panel(axes, name: str, tape: Any) -> None:
    """One step; its fullest moment is marked, with its MiB."""
    parts = [part for part in PAINTS if any(m.get(part) for m in tape.moments)]
    heights = np.array([[m.get(part, 0) / MIB for m in tape.moments] for part in parts])
    total = heights.sum(axis=0)
    x = _highest(total)
    step = "post" if len(total) <= SEEN else None  # of thousands, nobody sees the steps
    axes.stackplot(x, heights[:, x], colors=[PAINTS[part] for part in parts], step=step, lw=0)
    at = int(total.argmax())
    axes.plot([at], [total[at]], marker="v", color=INK, ms=5)
    axes.annotate(f"{total[at]:.1f} MiB", (at, total[at]), (7, 1), textcoords="offset points")
    for phase in PHASES[1:]:
        axes.axvline(tape.begins[phase], color=INK, lw=0.8, ls=":")
    ends = [*(tape.begins[phase] for phase in PHASES), len(total)]
    for phase, begin, end in zip(PHASES, ends, ends[1:], strict=False):
        axes.text((begin + end) / 2, 0.97, phase, transform=axes.get_xaxis_transform(),
                  ha="center", va="top", color=QUIET)  # fmt: skip
    axes.set(xlim=(0, len(total)), ylabel="MiB", xticks=[])
    axes.set_title(name, loc="left")


def _highest(total: np.ndarray) -> np.ndarray:
    """Of each `SEEN`-th of the step, the fullest moment: more, nobody would see."""
    parts = np.array_split(np.arange(len(total)), min(SEEN, len(total)))
    return np.array([part[total[part].argmax()] for part in parts])


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
        figure, axes = plt.subplots(figsize=(WIDTH, 3.4), layout="constrained")
        edges = np.append(sizes, sizes[-1] ** 2 / sizes[-2])
        axes.pcolormesh(edges, np.arange(len(ranks) + 1) - 0.5, grid, norm=norm,
                        cmap=ListedColormap(colors), edgecolors=PAPER, lw=0.4)  # fmt: skip
        axes.set(xscale="log", xlabel="billions of parameters", xlim=(edges[0], edges[-1]))
        axes.xaxis.set_major_formatter(lambda size, _: f"{size / 1e9:g}")
        unit(axes, "ranks")
        axes.set_yticks(range(len(ranks)), [str(n) for n in ranks])
        seen = [name for name in names if number[name] in grid]
        looks: dict[str, Any] = {name: colors[number[name]] for name in seen}
        if len(names) in grid:
            looks["nothing fits"] = {"fc": NOTHING, "ec": LINE, "lw": 1}
        key(figure, looks, columns=2)
    return figure
