"""What training and the writer of a checkpoint do at the same time."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from plots.marks import key, rounded
from plots.theme import WIDTH, color, style

STEP, STANDS, WRITES = 0, 1, 2  # numbers of colours
LABELS, ROW = 0.95, 0.3  # inches: of what stands beside the rows, and of a row


def save_timeline(by_way: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw one panel a way of saving: steps, how long training stood still, what was written.

    by_way: title to {"steps": [(start, end), ...], "stands": (start, end), "durable": time}, in
    seconds by one clock, from anywhere. The writer's bar ends where the checkpoint is durable.
    Raises ValueError without a way.
    """
    if not by_way:
        raise ValueError("save_timeline: there is nothing to draw; give it {way: times}")
    begins = {way: min(start for start, _ in each["steps"]) for way, each in by_way.items()}
    ends = [
        max(each["durable"], each["steps"][-1][1]) - begins[way] for way, each in by_way.items()
    ]
    with style():
        figure, axes = plt.subplots(
            len(by_way), figsize=(WIDTH, 0.95 * len(by_way) + 0.9), sharex=True, squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for below, (way, each) in zip(axes[:, 0], by_way.items(), strict=True):
            _panel(below, each, begins[way], 1e3 * max(ends))
            below.set_title(way, loc="left")
        axes[-1, 0].spines["bottom"].set_visible(True)
        axes[-1, 0].tick_params(bottom=True)
        axes[-1, 0].set(xlabel="milliseconds", xlim=(0, 1020 * max(ends)))
        names = {"a step": STEP, "training stands still": STANDS, "writing, until durable": WRITES}
        key(figure, {name: color(number) for name, number in names.items()}, columns=2)
    return figure


def _panel(axes, each: Mapping[str, Any], zero: float, longest: float) -> None:
    inch = longest / (WIDTH - LABELS), 1 / ROW

    def bars(spans, row: float, number: int) -> None:
        at = [((start - zero) * 1e3, row, (end - start) * 1e3, 0.8) for start, end in spans]
        rounded(axes, at, inch, facecolor=color(number))

    start, returned = each["stands"]
    bars(each["steps"], 0, STEP)
    bars([(start, returned)], 0, STANDS)
    bars([(start, each["durable"])], 1, WRITES)
    axes.set(ylim=(1.9, -0.1), yticks=[0.4, 1.4], yticklabels=["training", "checkpoint"])
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(bottom=False)
