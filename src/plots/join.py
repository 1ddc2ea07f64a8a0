"""Torch's Join as it went, and what each way of training on uneven inputs makes of an input."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from plots.marks import key
from plots.theme import GROUND, INK, LINE, PAPER, QUIET, WIDTH, color, ink_on, style

# what a rank does for itself; what it does for the others, in Join
KINDS = {
    "forward": (color(0), "forward"),
    "backward": (color(1), "backward"),
    "step": (color(4), "optimizer.step()"),
    "ask": (LINE, "asks who has inputs"),
    "main_hook": (color(2), "main hook"),
    "post_hook": (color(6), "post hook"),
}
COLLECTIVE = INK
ROW = 0.72  # inches: of a rank's row
SCALES = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6}


def join_timeline(
    timeline: Any,
    title: str = "",
    unit: str = "milliseconds",
    notes: Mapping[int, str] | None = None,
) -> Figure:
    """Draw a `rankbook.parallel.joining.JoinTimeline`: one row a rank, from left to right.

    Wide boxes are what the rank does; thin dark ones below are the collectives that it starts
    from Python meanwhile. A dotted line goes from a rank that says it has an input to each that
    asks; a flag stands where the inputs of a rank end. unit: "seconds", "milliseconds" or
    "microseconds"; raises ValueError for another, and without an event. notes: what to write, by
    rank, behind the last thing that the rank did, or inside of it where no room is left.
    """
    if unit not in SCALES:
        raise ValueError(f"join_timeline: unit {unit!r} is unknown; use {', '.join(SCALES)}")
    if not timeline.events:
        raise ValueError("join_timeline: there is no event to draw; record a `with Join(...)`")
    scale, rows = SCALES[unit], {rank: row for row, rank in enumerate(timeline.ranks)}
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, ROW * len(rows) + 1.2), layout="constrained")
        for rank, row in rows.items():
            axes.barh(row + 0.1, timeline.span * scale, height=0.74, align="edge", color=GROUND)
            _events(axes, timeline, rank, row, scale)
            _note(axes, timeline, rank, row, scale, (notes or {}).get(rank, ""))
        _answers(axes, timeline, rows, scale)
        axes.set(ylim=(len(rows), -0.1), xlim=(0, timeline.span * scale * 1.005), xlabel=unit)
        axes.set_yticks([row + 0.5 for row in rows.values()], [f"rank {rank}" for rank in rows])
        axes.set_title(title, loc="left")
        seen = {event.kind for event in timeline.events}
        names = {name: paint for kind, (paint, name) in KINDS.items() if kind in seen}
        if "collective" in seen:
            names["collective"] = COLLECTIVE
        key(figure, names)
    return figure


def _events(axes, timeline, rank: int, row: int, scale: float) -> None:
    def boxes(kind: str) -> list[tuple[float, float]]:
        mine = timeline.of(rank, kind)
        return [((e.start - timeline.start) * scale, (e.end - e.start) * scale) for e in mine]

    for kind, (ground, _) in KINDS.items():
        axes.broken_barh(boxes(kind), (row + 0.14, 0.5), color=ground, ec=PAPER, lw=0.6)
    axes.broken_barh(boxes("collective"), (row + 0.67, 0.15), color=COLLECTIVE, lw=0)
    for left, _ in boxes("exhausted"):
        axes.plot([left, left], [row + 0.02, row + 0.86], color=INK, lw=1.5)
        side = -1 if left > timeline.span * scale / 2 else 1
        _write(axes, (left, row + 0.06), "inputs used up", INK, side, "bottom")


def _note(axes, timeline, rank: int, row: int, scale: float, text: str) -> None:
    last = max(timeline.of(rank), key=lambda event: event.end)
    room = timeline.start + timeline.span - last.end > timeline.span / 4
    left = (last.end if room else last.start) - timeline.start
    ink = INK if room or last.kind not in KINDS else ink_on(KINDS[last.kind][0])
    if text:
        _write(axes, (left * scale, row + 0.39), text, ink)


def _write(
    axes, place: tuple[float, float], words: str, ink: str, side: int = 1, va: str = "center"
) -> None:
    """Words a little to the right of a place; to the left of it with `side` -1."""
    axes.annotate(words, place, (5 * side, 0), textcoords="offset points", color=ink,
                  ha="left" if side > 0 else "right", va=va)  # fmt: skip


def _answers(axes, timeline, rows: Mapping[int, int], scale: float) -> None:
    """The n-th time that a rank notifies or asks is one all_reduce, on all ranks."""
    talks = [timeline.of(rank, "notify", "ask") for rank in rows]
    for events in zip(*talks, strict=False):
        for asking in events:
            for telling in events:
                if (asking.kind, telling.kind) == ("ask", "notify"):
                    x = [(t - timeline.start) * scale for t in (telling.start, asking.end)]
                    y = [rows[telling.rank] + 0.39, rows[asking.rank] + 0.39]
                    axes.plot(x, y, ":", color=INK, lw=0.8, zorder=3)


def sample_weights(by_way: Mapping[str, Sequence]) -> Figure:
    """Draw how much each input counts: one row of bars a way, one colour a rank.

    by_way: the name of the way to what `rankbook.training.weigh_inputs` gave for it. The line is
    at 1. Raises ValueError without a way.
    """
    if not by_way:
        raise ValueError("sample_weights: there is no way to draw; give it weigh_inputs of some")
    with style():
        size = (WIDTH, 0.82 * len(by_way) + 0.65)
        figure, grid = plt.subplots(
            len(by_way), figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained"
        )
        for axes, (way, weights) in zip(grid[:, 0], by_way.items(), strict=True):
            left, ticks = 0, {}
            for rank, values in enumerate(weights):
                at = [left + number for number in range(len(values))]
                axes.bar(at, [float(v) for v in values], color=color(rank), width=0.82)
                if axes is grid[0, 0]:
                    _name(axes, sum(at) / len(at), rank)
                ticks |= {x: str(number) for number, x in enumerate(at)}
                left += len(values) + 1  # a gap between ranks
            axes.axhline(1, color=QUIET, lw=0.8, zorder=0)
            axes.set_title(way, loc="left")
            axes.yaxis.set_major_locator(MaxNLocator(2, integer=True))
            axes.set_xticks(list(ticks), ticks.values())
        grid[-1, 0].set_xlabel("input of the rank, in its order")
    return figure


def _name(axes, x: float, rank: int) -> None:
    axes.annotate(f"rank {rank}", (x, 1), (0, 3), xycoords=("data", "axes fraction"), ha="center",
                  textcoords="offset points", color=color(rank), weight="bold")  # fmt: skip
