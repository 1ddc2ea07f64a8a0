"""Layouts as planned: memory against the card's, and a step's time by parts."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.marks import beside, key
from plots.mesh import DIMENSIONS
from plots.strategies import PARTS
from plots.theme import BAD, LINE, PAPER, QUIET, WIDTH, color, style

BAR, ROW, HEAD = 0.66, 0.3, 1.3  # of a row; inches
GB = 1e9
HELD: dict[str, Any] = {  # terms of `rankbook.predict.memory.memory_of`
    "parameters": PARTS["parameters"],
    "gathered": PARTS["gathered"],
    "gradients": PARTS["gradients"],
    "optimizer": PARTS["state"],
    "activations": PARTS["activations"],
    "logits": color(3),
    "buffers": PARTS["buffers"],
    "workspace": color(4),
}
HELD_NAMES = {"optimizer": "optimizer state", "gathered": "gathered parameters"}
SPENT: dict[str, Any] = {  # terms of `rankbook.predict.plan.step_time`
    "compute": color(7),
    "recompute": color(2),
    "elementwise": color(6),
    "tensor": DIMENSIONS["tp"],
    "pipeline": DIMENSIONS["pp"],
    "replicas": DIMENSIONS["dp"],
    "bubble": {"facecolor": PAPER, "edgecolor": LINE, "lw": 1},
    "update": color(5),
}
Parts = Mapping[str, Any]


def plan_memory(plans: Mapping[str, Parts], card: float, room: float | None = None) -> Figure:
    """Draw what the fullest rank of each layout holds, against the memory of the card.

    plans: name to the terms of `rankbook.predict.memory.memory_of`, or {term: bytes}. card: bytes
    of the whole card. room: bytes that a plan may fill, dashed; what is beyond it does not fit.
    Raises ValueError without plans.
    """
    found = _plain(plans)
    if not found:
        raise ValueError("plan_memory: no plans; give it {name: terms of memory_of}")
    limit = card if room is None else room
    with style():
        figure, axes = _stacked(found, GB, HELD)
        for line, parts in enumerate(found.values()):
            total = sum(parts.values())
            words = f"{total / GB:,.0f}" if total <= limit else f"{total / GB:,.0f} does not fit"
            beside(axes, max(total, card) / GB, line, words)
        axes.axvline(card / GB, color=BAD, lw=1.5, zorder=3)
        looks = {"the card": Line2D([], [], color=BAD, lw=1.5)}
        if room is not None:
            axes.axvline(room / GB, color=BAD, lw=1.2, ls="--", zorder=3)
            looks["what a plan may fill"] = Line2D([], [], color=BAD, lw=1.2, ls="--")
        longest = max(card, *(sum(parts.values()) for parts in found.values()))
        wider = 1.4 if longest > limit else 1.15  # room for the words beside the bars
        axes.set(xlabel="GB on the fullest rank", xlim=(0, wider * longest / GB))
        key(figure, _looks(found, HELD, HELD_NAMES) | looks, columns=2)
    return figure


def plan_times(plans: Mapping[str, Parts]) -> Figure:
    """Draw the seconds of a step of each layout, by what they are spent on.

    plans: name to the terms of `rankbook.predict.plan.step_time`, or {term: seconds}. Raises
    ValueError without plans.
    """
    found = _plain(plans)
    if not found:
        raise ValueError("plan_times: no plans; give it {name: terms of step_time}")
    longest = max(sum(parts.values()) for parts in found.values())
    with style():
        figure, axes = _stacked(found, 1.0, SPENT)
        for line, parts in enumerate(found.values()):
            total = sum(parts.values())
            beside(axes, total, line, f"{total:.3g}")
        axes.set(xlabel="seconds a step", xlim=(0, 1.14 * longest))
        key(figure, _looks(found, SPENT, {}), columns=3)
    return figure


def _plain(plans: Mapping[str, Parts]) -> dict[str, dict[str, float]]:
    """Name to numbers; of terms, their values."""
    return {
        name: {part: float(getattr(value, "value", value)) for part, value in parts.items()}
        for name, parts in plans.items()
    }


def _stacked(
    found: Mapping[str, Mapping[str, float]], scale: float, paints: Mapping[str, Any]
) -> tuple[Figure, Axes]:
    """A figure with a stacked bar for each name, the first above."""
    size = WIDTH, ROW * len(found) + HEAD
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    for line, parts in enumerate(found.values()):
        left = 0.0
        for name in (*paints, *(name for name in parts if name not in paints)):
            width = parts.get(name, 0.0) / scale
            if width:
                axes.barh(line, width, BAR, left=left, **_look(paints.get(name, QUIET)))
            left += width
    axes.set(yticks=range(len(found)), yticklabels=list(found), ylim=(len(found) - 0.4, -0.6))
    return figure, axes


def _look(paint: Any) -> dict[str, Any]:
    return dict(paint) if isinstance(paint, Mapping) else {"color": paint}


def _looks(
    found: Mapping[str, Mapping[str, float]], paints: Mapping[str, Any], names: Mapping[str, str]
) -> dict[str, Any]:
    """A key for each part that can be seen in some bar."""
    most = max(sum(parts.values()) for parts in found.values())
    seen = [n for n in paints if any(parts.get(n, 0) > most / 200 for parts in found.values())]
    others = dict.fromkeys(n for parts in found.values() for n in parts if n not in paints)
    return {names.get(n, n): paints[n] for n in seen} | dict.fromkeys(others, QUIET)
