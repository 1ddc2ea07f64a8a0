"""Pipeline schedules: who did what when, recorded or simulated."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from rankbook.plots.theme import QUIET, color, ink_on, style

# blue for forward, warm for backward, all of different lightness
KINDS = {
    "F": (color(0), "forward"),
    "B": (color(1), "backward"),
    "I": ("#f4cd95", "backward, input only"),
    "W": ("#b0642a", "backward, weights only"),
    "wait": ("#b4bac1", "waits for a message"),
}
GROUND = "#f1f3f5"  # of the time that is measured: what of it stays empty is idle
WIDTH, LABELS = 5.4, 0.75  # inches: of the figure, and of what stands beside the rows
DIGIT, MARGIN = 0.05, 0.018  # inches: a digit in a box, and what it needs beside it
GAP = 0.4  # between rows, in boxes
STEP = 0.3  # of a box's height: how much lower the next stage of a rank is drawn
SCALES = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6}


def timeline(timeline: Any, title: str = "", unit: str = "milliseconds") -> Figure:
    """Draw one `rankbook.parallel.Timeline`; see `timelines`."""
    return timelines({title: timeline}, unit)


def timelines(by_name: Mapping[str, Any], unit: str = "milliseconds") -> Figure:
    """Draw timelines below each other, on one time axis: one row a rank, one box an action.

    by_name: title to `rankbook.parallel.Timeline`. The number in a box is that of its microbatch,
    left out where there is no room; boxes of a rank's second stage stand a little lower than those
    of its first. Behind the title stands the share of time that is idle, if the timeline's work is
    known. unit: "seconds", "milliseconds" or "microseconds" for times in seconds; any other word
    names the unit that the times are in. Raises ValueError without a timeline.
    """
    if not by_name:
        raise ValueError("timelines: there is none to draw; give it {title: timeline}")
    scale = SCALES.get(unit, 1.0)
    longest = max(each.span for each in by_name.values()) * scale
    heights = [
        sum(_height(stages) + GAP for stages in _stages(each).values()) * 0.19 + 0.2
        for each in by_name.values()
    ]
    with style():
        figure, axes = plt.subplots(
            len(by_name),
            figsize=(WIDTH, sum(heights) + 0.85),
            height_ratios=heights,
            sharex=True,
            squeeze=False,
            layout="constrained",
        )
        for below, (title, each) in zip(axes[:, 0], by_name.items(), strict=True):
            _rows(below, each, scale, longest)
            below.set_title(_title(title, each), loc="left", size=9.5)
        axes[-1, 0].set(xlabel=unit, xlim=(0, longest * 1.005))
        kinds = {action.kind for each in by_name.values() for action in each.actions}
        patches = [Patch(color=c, label=name) for k, (c, name) in KINDS.items() if k in kinds]
        figure.legend(handles=patches, loc="outside upper left", ncols=3, fontsize=8.5,
                      handlelength=1.1, columnspacing=1.2)  # fmt: skip
    return figure


def _title(title: str, timeline: Any) -> str:
    idle = "" if timeline.work is None else f"{timeline.idle_share:.1%} idle"
    return ": ".join(filter(None, (title, idle)))


def _stages(timeline: Any) -> dict[int, list[int]]:
    """The stages on each rank, in order."""
    pairs = sorted({(action.rank, action.stage) for action in timeline.actions})
    return {rank: [stage for r, stage in pairs if r == rank] for rank in timeline.ranks}


def _height(stages: list[int]) -> float:
    """Of a rank's row, in boxes."""
    return 1 + STEP * (len(stages) - 1)


def _rows(axes, timeline, scale: float, longest: float) -> None:
    top, ticks = 0.0, {}
    for rank, stages in _stages(timeline).items():
        height = _height(stages)
        axes.barh(top, timeline.span * scale, height=height, align="edge", color=GROUND)
        for lower, stage in enumerate(stages):
            mine = [a for a in timeline.actions if (a.rank, a.stage) == (rank, stage)]
            _boxes(axes, mine, top + STEP * lower, timeline.start, scale, longest)
        ticks[top + height / 2] = f"rank {rank}"
        top += height + GAP
    axes.set(ylim=(top - GAP, 0), yticks=list(ticks), yticklabels=list(ticks.values()))
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False)
    axes.tick_params(axis="x", color=QUIET)


def _boxes(axes, actions: list, top: float, zero: float, scale: float, longest: float) -> None:
    for kind, (ground, _) in KINDS.items():
        mine = [action for action in actions if action.kind == kind]
        # a wait that began before the first action is not part of what is measured
        starts = [max(0.0, action.start - zero) * scale for action in mine]
        ends = [(action.end - zero) * scale for action in mine]
        boxes = [(start, max(0.0, end - start)) for start, end in zip(starts, ends, strict=True)]
        thin = kind == "wait"
        where = (top + 0.42, 0.16) if thin else (top + 0.03, 0.94)
        axes.broken_barh(boxes, where, color=ground, ec="white", lw=0 if thin else 0.6)
        for action, (start, length) in zip(mine, boxes, strict=True):
            room = length / longest * (WIDTH - LABELS)
            if not thin and room > DIGIT * len(str(action.microbatch)) + MARGIN:
                axes.text(start + length / 2, top + 0.52, action.microbatch, ha="center",
                          va="center", size=6.5, color=ink_on(ground))  # fmt: skip
