"""One schedule of a pipeline: what each rank does, and beneath it what each rank holds."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from plots.marks import key
from plots.schedules import KINDS, LABELS, draw_actions
from plots.theme import GROUND, PAPER, WIDTH, color, style

ROW, STRIP = 0.42, 0.36  # inches: of a rank's row, and of its memory
STEP = 0.3  # of a box's height: how much lower the second stage of a rank is drawn
SPACE = 0.35  # between rows, in boxes
HELD, GOES = color(0), color(3)  # what is held; what the next schedule does without
HATCH = {"facecolor": PAPER, "edgecolor": GOES, "hatchcolor": GOES, "hatch": "////", "lw": 0.8}
Steps = Mapping[int, Sequence[tuple[float, float]]]


def schedule_step(
    timeline: Any,
    held: Steps,
    gaps: Steps | None = None,
    ceiling: Mapping[int, float] | None = None,
    note: str = "",
    until: float | None = None,
) -> Figure:
    """Draw one `rankbook.parallel.pipeline.Timeline`, a row a rank, and beneath it what each holds.

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
            len(heights), figsize=(WIDTH, sum(heights) + 1.55), height_ratios=heights,
            sharex=True, layout="constrained",
        )  # fmt: skip
        _rows(axes[0], timeline, gaps or {}, until / (WIDTH - LABELS))
        axes[0].set_title("what each rank does", loc="left")
        for below, rank in zip(axes[1:], ranks, strict=True):
            _memory(below, rank, held[rank], timeline.span, top, (ceiling or {}).get(rank))
        axes[1].set_title("activations it holds", loc="left")
        axes[-1].tick_params(bottom=True, labelbottom=True)
        axes[-1].spines["bottom"].set_visible(True)
        axes[-1].set(xlim=(0, until * 1.01), xlabel="time in F")
        axes[-1].set_xticks(range(0, int(until) + 1, 2))
        _keys(figure, timeline, note)
    return figure


def _rows(axes, timeline, gaps: Steps, inch: float) -> None:
    ticks, at = {}, 0.0
    for rank in timeline.ranks:
        mine = timeline.computed(rank)
        stages = sorted({action.stage for action in mine})
        height = 1 + STEP * (len(stages) - 1)
        axes.barh(at, timeline.span, height=height, align="edge", color=GROUND)
        for lower, stage in enumerate(stages):
            own = [action for action in mine if action.stage == stage]
            units = inch, (height + SPACE) / ROW
            draw_actions(axes, own, at + STEP * lower, timeline.start, 1.0, units)
        for start, end in gaps.get(rank, ()):
            _hatch(axes, start, end, at, at + height)
            if end - start >= 1:
                axes.text((start + end) / 2, at + height / 2, f"{end - start:g}", ha="center",
                          va="center_baseline", color=GOES, weight="bold",
                          bbox={"fc": PAPER, "ec": "none", "pad": 1.2})  # fmt: skip
        ticks[at + height / 2] = f"rank {rank}"
        at += height + SPACE
    axes.set(ylim=(at - SPACE, 0), yticks=list(ticks), yticklabels=list(ticks.values()))
    _quiet(axes)


def _memory(axes, rank: int, steps, span: float, top: float, ceiling: float | None) -> None:
    times = [time for time, _ in steps] + [span]
    numbers = [number for _, number in steps] + [steps[-1][1]]
    axes.fill_between(times, numbers, step="post", color=HELD, alpha=0.22, lw=0)
    axes.step(times, numbers, where="post", color=HELD)
    if ceiling is not None:
        pairs = zip(times, times[1:], numbers, strict=False)
        for start, end, number in pairs:
            if number > ceiling:
                _hatch(axes, start, end, ceiling, number, edge=0)
    axes.set(ylim=(0, top * 1.05), yticks=[top / 2], yticklabels=[f"rank {rank}"])
    axes.set_yticks(range(1, int(top) + 1), minor=True)
    axes.grid(True, which="minor", axis="y")
    axes.text(1.0, 0.98, f"at most {max(numbers):g}", ha="right", va="top",
              transform=axes.transAxes)  # fmt: skip
    _quiet(axes)


def _hatch(axes, left: float, right: float, low: float, high: float, edge: float = 0.8) -> None:
    axes.fill_between([left, right], low, high, **(HATCH | {"lw": edge}))


def _quiet(axes) -> None:
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(which="both", left=False, bottom=False, labelbottom=False)


def _keys(figure, timeline, note: str) -> None:
    seen = {action.kind for action in timeline.actions}
    looks: dict[str, Any] = {
        f"{name}: {kind.words}": kind.patch() for name, kind in KINDS.items() if name in seen
    }
    if note:
        looks[note] = HATCH
    key(figure, looks, columns=2)
