"""One step as the profiler saw it: what ran when, and the gaps between."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from plots.theme import GROUND, INK, LINE, QUIET, WIDTH, color, style

GAP = "nothing runs"
LABELS, LETTER = 1.6, 0.09  # inches: of what stands beside the rows, and of a letter
SEEN = 1 / 1000  # of the step: bars less apart than this are drawn as one


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
            len(named), 1, figsize=(WIDTH, 0.25 * sum(heights) + 0.75 * len(named)),
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
    axes.set_xlim(0, trace.seconds * 1e3)
    for y, (kind, ground) in enumerate(kinds.items(), 1):
        bars = [(s.start * 1e3, (s.end - s.start) * 1e3) for s in trace.spans if s.kind == kind]
        _row(axes, y, bars, ground, spent[kind] / trace.seconds)
    gaps = [(start * 1e3, (end - start) * 1e3) for start, end in trace.gaps]
    _row(axes, len(kinds) + 1, gaps, INK, trace.gap_share)
    for mark in trace.marks:
        start, width = mark.start * 1e3, (mark.end - mark.start) * 1e3
        name = mark.name.split("#")[-1].removesuffix(".step")
        axes.broken_barh([(start, width)], (-0.4, 0.8), color=GROUND, ec=LINE, lw=0.8)
        if width / 1e3 / trace.seconds * (WIDTH - LABELS) > LETTER * len(name):
            axes.text(start + width / 2, 0, name, ha="center", va="center_baseline")
    axes.set(yticks=range(1, len(kinds) + 2), yticklabels=[*kinds, GAP], xlabel="milliseconds",
             ylim=(len(kinds) + 1.6, -0.6))  # fmt: skip
    axes.set_title(title, loc="left")
    axes.tick_params(axis="y", length=0)


def _merged(bars: list[tuple[float, float]], apart: float) -> list[tuple[float, float]]:
    """The bars (start, width) with those together between which nobody would see a gap."""
    found: list[tuple[float, float]] = []
    for start, width in sorted(bars):
        if found and start - sum(found[-1]) < apart:
            first = found.pop()
            found.append((first[0], max(sum(first), start + width) - first[0]))
        else:
            found.append((start, width))
    return found


def _row(axes, y: int, bars: list, ground: str, share: float) -> None:
    # a bar narrower than a pixel would vanish: an edge of its own colour keeps it
    merged = _merged(bars, SEEN * axes.get_xlim()[1])
    axes.broken_barh(merged, (y - 0.36, 0.72), color=ground, ec=ground, lw=0.3)
    axes.text(1.01, y, f"{share:.0%}", transform=axes.get_yaxis_transform(), va="center_baseline",
              color=QUIET)  # fmt: skip
