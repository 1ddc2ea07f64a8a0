"""One schedule of a pipeline: what each rank does, and beneath it what each rank holds."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from rankbook.plots.schedules import KINDS
from rankbook.plots.theme import INK, QUIET, color, ink_on, style

WIDTH = 4.4  # inches: narrow, so that a phone shrinks it little
ROW, STRIP = 0.46, 0.42  # inches: of a rank's row, and of its memory
STEP = 0.3  # of a box's height: how much lower the second stage of a rank is drawn
SPACE = 0.35  # between rows, in boxes
DIGIT = 9  # points
HELD, GROUND, GOES = color(2), "#f1f3f5", "#a3491a"
Steps = Mapping[int, Sequence[tuple[float, float]]]


def schedule_step(
    timeline: Any,
    held: Steps,
    gaps: Steps | None = None,
    ceiling: Mapping[int, float] | None = None,
    note: str = "",
    until: float | None = None,
) -> Figure:
    """Draw one `rankbook.parallel.Timeline`, one row a rank, and what each rank holds beneath it.

    held: for each rank, (time, number of activations from then on), from the start of the step.
    gaps: for each rank, the (start, end) that are hatched in its row. ceiling: for each rank, the
    number above which what it holds is hatched. note: what the hatching means. until: the end of
    the time axis, where several figures share one. The number in a box is its microbatch's; boxes
    of a rank's second stage stand lower. Raises ValueError without ranks in `held`.
    """
    if not held:
        raise ValueError("schedule_step: nothing is held; give it {rank: [(time, number), ...]}")
    until = until or timeline.span
    ranks = timeline.ranks
    top = max(number for steps in held.values() for _, number in steps)
    heights = [ROW * len(ranks) + 0.1, *[STRIP] * len(ranks)]
    with style():
        figure, axes = plt.subplots(
            len(heights), figsize=(WIDTH, sum(heights) + 1.7), height_ratios=heights,
            sharex=True, layout="constrained",
        )  # fmt: skip
        _rows(axes[0], timeline, gaps or {})
        axes[0].set_title("what each rank does", loc="left", size=9.5)
        for below, rank in zip(axes[1:], ranks, strict=True):
            _memory(below, rank, held[rank], timeline.span, top, (ceiling or {}).get(rank))
        axes[1].set_title("activations it holds", loc="left", size=9.5)
        axes[-1].tick_params(bottom=True, labelbottom=True)
        axes[-1].set(xlim=(0, until * 1.01), xlabel="time in F")
        axes[-1].set_xticks(range(0, int(until) + 1, 2))
        _legend(figure, timeline, note)
    return figure


def _rows(axes, timeline, gaps: Steps) -> None:
    ticks, at = {}, 0.0
    for rank in timeline.ranks:
        mine = timeline.computed(rank)
        stages = sorted({action.stage for action in mine})
        height = 1 + STEP * (len(stages) - 1)
        axes.barh(at, timeline.span, height=height, align="edge", color=GROUND)
        for action in mine:
            _box(axes, action, at + STEP * stages.index(action.stage), timeline.start)
        for start, end in gaps.get(rank, ()):
            _hatch(axes, start, end, at, at + height)
            if end - start >= 1:
                axes.text((start + end) / 2, at + height / 2, f"{end - start:g}", size=DIGIT,
                          ha="center", va="center", color=GOES, weight="bold",
                          bbox={"fc": "white", "ec": "none", "pad": 1.2})  # fmt: skip
        ticks[at + height / 2] = f"rank {rank}"
        at += height + SPACE
    axes.set(ylim=(at - SPACE, 0), yticks=list(ticks), yticklabels=list(ticks.values()))
    _quiet(axes)


def _box(axes, action, top: float, zero: float) -> None:
    length, ground = action.end - action.start, KINDS[action.kind][0]
    if not length:  # torch leaves the whole backward of stage 0 to W
        return
    start = action.start - zero
    axes.broken_barh([(start, length)], (top + 0.03, 0.94), color=ground, ec="white", lw=0.6)
    axes.text(start + length / 2, top + 0.53, action.microbatch, ha="center", va="center",
              size=DIGIT, color=ink_on(ground))  # fmt: skip


def _memory(axes, rank: int, steps, span: float, top: float, ceiling: float | None) -> None:
    times = [time for time, _ in steps] + [span]
    numbers = [number for _, number in steps] + [steps[-1][1]]
    axes.fill_between(times, numbers, step="post", color=HELD, lw=0)
    axes.step(times, numbers, where="post", color=color(0), lw=1.2)
    if ceiling is not None:
        pairs = zip(times, times[1:], numbers, strict=False)
        for start, end, number in pairs:
            if number > ceiling:
                _hatch(axes, start, end, ceiling, number)
    axes.set(ylim=(0, top * 1.05), yticks=[top / 2], yticklabels=[f"rank {rank}"])
    axes.set_yticks(range(1, int(top) + 1), minor=True)
    axes.grid(True, which="minor", axis="y")
    axes.set_axisbelow(False)
    most = max(numbers)
    axes.text(1.0, 0.98, f"at most {most:g}", size=DIGIT, ha="right", va="top",
              transform=axes.transAxes)  # fmt: skip
    _quiet(axes)


def _hatch(axes, left: float, right: float, low: float, high: float) -> None:
    axes.fill_between([left, right], low, high, facecolor="white", edgecolor=GOES, hatch="////",
                      lw=0.8, alpha=0.9)  # fmt: skip


def _quiet(axes) -> None:
    axes.spines["left"].set_visible(False)
    axes.tick_params(which="both", left=False, bottom=False, labelbottom=False)
    axes.tick_params(axis="x", color=QUIET)


def _legend(figure, timeline, note: str) -> None:
    seen = {action.kind for action in timeline.actions}
    patches = [Patch(color=c, label=f"{k}: {name}") for k, (c, name) in KINDS.items() if k in seen]
    if note:
        patches.append(Patch(fc="white", ec=GOES, hatch="////", label=note))
    figure.legend(handles=patches, loc="outside upper left", ncols=2, fontsize=8.5, labelcolor=INK,
                  handlelength=1.3, columnspacing=1.2)  # fmt: skip
