"""Pipeline schedules: who did what when, recorded or simulated."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from plots.marks import SEAM, key, rounded
from plots.theme import GROUND, INK, PAPER, QUIET, WIDTH, color, ink_on, style


class Kind(NamedTuple):
    """How the boxes of one kind of action look."""

    words: str
    fill: str
    ink: str  # of the number in a box
    alpha: float = 1.0
    edge: str = PAPER

    def patch(self) -> dict[str, Any]:
        """As matplotlib takes it."""
        fill = to_rgba(self.fill, self.alpha)
        return {"facecolor": fill, "edgecolor": self.edge, "lw": SEAM}


# a whole backward is warm and full; of its halves one is pale, the other, which can wait, hollow
FORWARD, BACKWARD = color(0), color(1)
KINDS = {
    "F": Kind("forward", FORWARD, ink_on(FORWARD)),
    "B": Kind("backward", BACKWARD, ink_on(BACKWARD)),
    "I": Kind("backward, input only", BACKWARD, INK, 0.45),
    "W": Kind("backward, weights only", PAPER, INK, edge=BACKWARD),
    "wait": Kind("waits for a message", QUIET, INK),
}
LABELS = 0.75  # inches: of what stands beside the rows
ROW = 0.21  # inches: the height of a box
DIGIT, MARGIN = 0.088, 0.03  # inches: a digit in a box, and what it needs beside it
GAP = 0.4  # between rows, in boxes
STEP = 0.3  # of a box's height: how much lower the next stage of a rank is drawn
SCALES = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6}


def timeline(timeline: Any, title: str = "", unit: str = "milliseconds") -> Figure:
    """Draw one `rankbook.parallel.pipeline.Timeline`; see `timelines`."""
    return timelines({title: timeline}, unit)


def timelines(by_name: Mapping[str, Any], unit: str = "milliseconds") -> Figure:
    """Draw timelines below each other, on one time axis: one row a rank, one box an action.

    by_name: title to `rankbook.parallel.pipeline.Timeline`. The number in a box is that of its
    microbatch, left out where there is no room; boxes of a rank's second stage stand a little lower
    than those of its first. Behind the title stands the share of time that is idle, if the
    timeline's work is known. unit: "seconds", "milliseconds" or "microseconds" for times in
    seconds; any other word names the unit that the times are in. Raises ValueError without a
    timeline.
    """
    if not by_name:
        raise ValueError("timelines: there is none to draw; give it {title: timeline}")
    scale = SCALES.get(unit, 1.0)
    longest = max(each.span for each in by_name.values()) * scale
    heights = [
        sum(_height(stages) + GAP for stages in _stages(each).values()) * ROW + 0.24
        for each in by_name.values()
    ]
    with style():
        figure, axes = plt.subplots(
            len(by_name),
            figsize=(WIDTH, sum(heights) + 0.9),
            height_ratios=heights,
            sharex=True,
            squeeze=False,
            layout="constrained",
        )
        for below, (title, each) in zip(axes[:, 0], by_name.items(), strict=True):
            _rows(below, each, scale, longest)
            below.set_title(_title(title, each), loc="left")
        axes[-1, 0].set(xlabel=unit, xlim=(0, longest * 1.005))
        axes[-1, 0].spines["bottom"].set_visible(True)
        axes[-1, 0].tick_params(bottom=True)
        kinds = {action.kind for each in by_name.values() for action in each.actions}
        key(figure, {each.words: each.patch() for k, each in KINDS.items() if k in kinds})
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


def _rows(axes: Axes, timeline, scale: float, longest: float) -> None:
    top, ticks = 0.0, {}
    inch = longest / (WIDTH - LABELS), 1 / ROW
    for rank, stages in _stages(timeline).items():
        height = _height(stages)
        axes.barh(top, timeline.span * scale, height=height, align="edge", color=GROUND)
        for lower, stage in enumerate(stages):
            mine = [a for a in timeline.actions if (a.rank, a.stage) == (rank, stage)]
            draw_actions(axes, mine, top + STEP * lower, timeline.start, scale, inch)
        ticks[top + height / 2] = f"rank {rank}"
        top += height + GAP
    axes.set(ylim=(top - GAP, 0), yticks=list(ticks), yticklabels=list(ticks.values()))
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(left=False, bottom=False)


def draw_actions(
    axes: Axes, actions: list, top: float, zero: float, scale: float, inch: tuple[float, float]
) -> None:
    """The actions of one stage as boxes, their microbatches within: one collection a kind."""
    for name, kind in KINDS.items():
        # torch leaves the whole backward of stage 0 to W: its I has no length
        mine = [a for a in actions if a.kind == name and a.end > max(a.start, zero)]
        thin = name == "wait"
        low, high = (top + 0.44, 0.12) if thin else (top + 0.03, 0.94)
        # a wait that began before the first action is not part of what is measured
        lefts = [max(0.0, action.start - zero) * scale for action in mine]
        boxes = [
            (left, low, (action.end - zero) * scale - left, high)
            for action, left in zip(mine, lefts, strict=True)
        ]
        if boxes:
            rounded(axes, boxes, inch, **(kind.patch() | ({"lw": 0} if thin else {})))
        if not thin:
            _numbers(axes, mine, boxes, inch[0], kind.ink)


def _numbers(axes: Axes, actions: list, boxes: list, inch: float, ink: str) -> None:
    """The microbatches in the boxes with room for them, if most of the boxes have it."""
    fit = [
        width / inch > DIGIT * len(str(action.microbatch)) + MARGIN
        for action, (_, _, width, _) in zip(actions, boxes, strict=True)
    ]
    for action, (left, top, width, height), fits in zip(actions, boxes, fit, strict=True):
        if fits and 2 * sum(fit) >= len(fit):
            axes.text(left + width / 2, top + height / 2, action.microbatch, ha="center",
                      va="center_baseline", color=ink)  # fmt: skip
