"""Data parallelism: runs compared step by step, and DDP's backward pass with its buckets."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from plots.marks import key, name_ends
from plots.theme import GRID, INK, PAPER, QUIET, WIDTH, color, ink_on, powers, style, unit

COMPUTE = GRID  # the bar of the backward pass; its gradients are lines in it
TURN = 0.62  # of one lane: the backward pass, and below it one for each bucket on its way at once
GAP = 0.5  # between ranks
ROW, LABELS = 0.3, 0.75  # inches: of a lane, and of what stands beside the rows
DIGIT = 0.11  # inches: a bucket's number with what it needs beside it
MARKS = ("-", "--", "-.", ":")


def by_step(
    curves: Mapping[str, Sequence[float]],
    ylabel: str,
    control: str | None = None,
    logarithmic: bool = False,
) -> Figure:
    """Draw one line a run: a value, such as the loss, after each optimizer step, from 1 on.

    curves: name to values. control: the run with which the others are compared; it lies below
    them, wide and pale, and takes no colour from them. logarithmic: the axis of the values; one
    that is not positive is left out. Raises ValueError without a curve, for an empty one, or if
    there is no run `control`.
    """
    if not curves or not all(len(values) for values in curves.values()):
        raise ValueError("by_step: there is nothing to draw; give it {name: values}")
    if control is not None and control not in curves:
        raise ValueError(f"by_step: no run is called {control!r}; there is {', '.join(curves)}")
    longest = max(len(values) for values in curves.values())
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 2.9), layout="constrained")
        if logarithmic:
            axes.set_yscale("log", nonpositive="mask")
            powers(axes.yaxis)
        number, ends = 0, []
        for name, values in curves.items():
            look: dict[str, Any] = {"color": QUIET, "lw": 6, "alpha": 0.4, "zorder": 1}
            if name != control:
                look = {"color": color(number), "ls": MARKS[number % len(MARKS)]}
                number += 1
            axes.plot(range(1, len(values) + 1), values, label=name, **look)
            ends.append((float(values[-1]), name, look["color"]))
        axes.set(xlabel="optimizer step", xlim=(1, longest))
        unit(axes, ylabel)
        axes.grid(axis="y")
        name_ends(axes, ends)
    return figure


def overlap(by_name: Mapping[str, Sequence]) -> Figure:
    """Draw backward passes below each other, on one time axis: two kinds of bars for each rank.

    by_name: title to one `BackwardPass` a rank, as `OverlapRecorder.gather` gives them. The pale
    bar is the backward pass up to the last gradient; each line in it is a gradient that became
    ready, in the colour of its bucket. Below lie the buckets' all_reduces, with their numbers.
    Behind the title stands the share of the communication that the backward pass hides. Raises
    ValueError without a backward pass.
    """
    if not by_name or not all(by_name.values()):
        raise ValueError("overlap: there is no backward pass to draw; give it {title: passes}")
    heights = [sum(_height(each) + GAP for each in passes) for passes in by_name.values()]
    longest = max(_length(passes) for passes in by_name.values())
    with style():
        figure, axes = plt.subplots(
            len(by_name),
            figsize=(WIDTH, ROW * sum(heights) + 0.34 * len(heights) + 0.75),
            height_ratios=[height + 1.2 for height in heights],
            sharex=True,
            squeeze=False,
            layout="constrained",
        )
        for below, (title, passes) in zip(axes[:, 0], by_name.items(), strict=True):
            _rows(below, passes, longest)
            total = sum(each.communication for each in passes)
            hidden = sum(each.hidden for each in passes) / total if total else 0.0
            below.set_title(f"{title}: {hidden:.0%} of all_reduce hidden", loc="left")
        axes[-1, 0].set(xlabel="milliseconds", xlim=(0, longest * 1e3 * 1.005))
        names = "backward, a line for each gradient", "all_reduce of a bucket"
        key(figure, dict(zip(names, (COMPUTE, color(0)), strict=True)), columns=2)
    return figure


def _length(passes: Sequence) -> float:
    ends = [bucket.end for each in passes for bucket in each.buckets]
    return max([each.end for each in passes] + ends) - _zero(passes)


def _zero(passes: Sequence) -> float:
    return min(each.start for each in passes)


def _lanes(buckets: Sequence) -> list[int]:
    """A lane for each bucket, so that those on their way at once do not cover one another."""
    ends, lanes = [], []
    for bucket in buckets:
        free = (lane for lane, end in enumerate(ends) if end <= bucket.start)
        lane = next(free, len(ends))
        ends[lane : lane + 1] = [bucket.end]
        lanes.append(lane)
    return lanes


def _height(each) -> float:
    return 1 + TURN * (1 + max(_lanes(each.buckets), default=0))


def _rows(axes, passes: Sequence, longest: float) -> None:
    top, ticks = 0.0, {}
    for each in passes:
        _gradients(axes, each, top, _zero(passes))
        _buckets(axes, each, top + 1.08, _zero(passes), longest)
        ticks[top + _height(each) / 2] = f"rank {each.rank}"
        top += _height(each) + GAP
    axes.set(ylim=(top - GAP, 0), yticks=list(ticks), yticklabels=list(ticks.values()))


def _gradients(axes, each, top: float, zero: float) -> None:
    bucket_of = {name: bucket.index for bucket in each.buckets for name in bucket.names}
    begin, length = each.start - zero, each.computed - each.start
    axes.broken_barh([(begin * 1e3, length * 1e3)], (top, 0.92), color=COMPUTE)
    for ready in each.gradients:
        at = (ready.time - zero) * 1e3
        ground = color(bucket_of[ready.name]) if ready.name in bucket_of else INK
        axes.vlines(at, top, top + 0.92, color=ground, lw=1.5)


def _buckets(axes, each, top: float, zero: float, longest: float) -> None:
    for bucket, lane in zip(each.buckets, _lanes(each.buckets), strict=True):
        start, length = bucket.start - zero, bucket.end - bucket.start
        where = (top + TURN * lane, TURN * 0.88)
        ground = color(bucket.index)
        axes.broken_barh([(start * 1e3, length * 1e3)], where, color=ground, ec=PAPER, lw=0.8)
        if length / longest * (WIDTH - LABELS) > DIGIT:
            axes.text((start + length / 2) * 1e3, where[0] + where[1] / 2, bucket.index,
                      ha="center", va="center_baseline", color=ink_on(ground))  # fmt: skip
