"""One step as the profiler saw it: what ran when, and the gaps between."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rankbook.plots.theme import INK, QUIET, color, style

GAP = "nothing runs"


def step_trace(traces: Any) -> Figure:
    """Draw a trace, or several by title, one panel each: a row for each kind of operation.

    traces: of `rankbook.speed.trace`, each with `spans`, `marks`, `gaps`, `seconds`. The share of
    the step stands beside each row; named parts of the step are the grey boxes above. Raises
    ValueError without an operation.
    """
    named = traces if isinstance(traces, Mapping) else {"": traces}
    if not named or not all(trace.spans for trace in named.values()):
        raise ValueError("step_trace: no operations; let trace() run a whole step")
    kinds = [_kinds(trace) for trace in named.values()]
    heights = [len(rows) + 2 for rows in kinds]
    everywhere = list(dict.fromkeys(kind for rows in kinds for kind in rows))
    grounds = {kind: color(i) for i, kind in enumerate(everywhere)}  # the same in all panels
    with style():
        figure, panels = plt.subplots(
            len(named), 1, figsize=(6.8, 0.27 * sum(heights) + 0.75 * len(named)),
            height_ratios=heights, squeeze=False, layout="constrained",
        )  # fmt: skip
        for axes, (title, trace), rows in zip(panels[:, 0], named.items(), kinds, strict=True):
            _panel(axes, title, trace, {kind: grounds[kind] for kind in rows})
    return figure


def _kinds(trace: Any) -> list[str]:
    """The kinds of operations, by time, longest first, seven at most."""
    spent = trace.by_kind()
    return sorted(spent, key=lambda kind: -spent[kind])[:7]


def _panel(axes, title: str, trace: Any, kinds: Mapping[str, str]) -> None:
    spent = trace.by_kind()
    for y, (kind, ground) in enumerate(kinds.items(), 1):
        bars = [(s.start * 1e3, (s.end - s.start) * 1e3) for s in trace.spans if s.kind == kind]
        _row(axes, y, bars, ground, spent[kind] / trace.seconds)
    gaps = [(start * 1e3, (end - start) * 1e3) for start, end in trace.gaps]
    _row(axes, len(kinds) + 1, gaps, INK, trace.gap_share)
    for mark in trace.marks:
        start, width = mark.start * 1e3, (mark.end - mark.start) * 1e3
        if width < 0.08e3 * trace.seconds:
            continue
        axes.broken_barh([(start, width)], (-0.4, 0.8), color="#dfe4e9", ec="white")
        name = mark.name.split("#")[-1].removesuffix(".step")
        axes.text(start + width / 2, 0, name, ha="center", va="center", size=8)
    axes.set(yticks=range(1, len(kinds) + 2), yticklabels=[*kinds, GAP], xlabel="milliseconds",
             xlim=(0, trace.seconds * 1e3), ylim=(len(kinds) + 1.6, -0.6))  # fmt: skip
    axes.set_title(title, loc="left", size=9.5)
    axes.tick_params(axis="y", length=0)


def _row(axes, y: int, bars: list, ground: str, share: float) -> None:
    # a bar narrower than a pixel would vanish: an edge of its own colour keeps it
    axes.broken_barh(bars, (y - 0.36, 0.72), color=ground, ec=ground, lw=0.3)
    axes.text(1.01, y, f"{share:.0%}", transform=axes.get_yaxis_transform(), va="center", size=8.5,
              color=QUIET)  # fmt: skip
