"""Backward passes of one rank, from a profiler's trace: what it computes over what it sends."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from plots.marks import key
from plots.theme import INK, PAPER, WIDTH, color, ink_on, style

# what an operation's name begins with, and what it is drawn as; everything else is grey
KINDS = {
    "matrix products": (("AddmmBackward", "MmBackward", "BmmBackward", "TBackward"), color(0)),
    "attention": (("ScaledDotProduct",), color(2)),
    "the embeddings": (("EmbeddingBackward",), color(3)),
}
OTHER = ("other operations", color(7))
SENT = ("all_reduce", color(1))


def backward_traces(traces: Mapping[str, Any]) -> Figure:
    """Draw backward passes below each other, on one time axis: two rows for each.

    traces: title to `rankbook.speed.strategies.backward_trace.BackwardTrace`. In the upper row lie
    autograd's operations, in the lower one the all_reduces, numbered as they were sent; those that
    are on their way at once lie below each other. Behind the title stands the hidden share.
    Raises ValueError without a trace.
    """
    if not traces:
        raise ValueError("backward_traces: there is nothing to draw; give it {title: trace}")
    longest = max(_end(trace) for trace in traces.values())
    with style():
        figure, panels = plt.subplots(
            len(traces), figsize=(WIDTH, 1.1 * len(traces) + 1.0), sharex=True, squeeze=False,
            layout="constrained",
        )  # fmt: skip
        for axes, (title, trace) in zip(panels[:, 0], traces.items(), strict=True):
            _operations(axes, trace)
            _sent(axes, trace, longest)
            axes.set_title(f"{title}: {trace.hidden:.0%} hidden", loc="left")
            axes.set(yticks=[0.4, 1.4], yticklabels=["backward", "sent"], ylim=(2, 0))
            axes.spines["bottom"].set_visible(axes is panels[-1, 0])
            axes.tick_params(bottom=axes is panels[-1, 0])
        panels[-1, 0].set(xlabel="milliseconds", xlim=(0, longest * 1e3 * 1.005))
        key(figure, {name: ground for name, (_, ground) in KINDS.items()} | dict([OTHER, SENT]))
    return figure


def _end(trace) -> float:
    return max(span.end for span in [*trace.operations, *trace.sent])


def _operations(axes, trace) -> None:
    bars: dict[str, list[tuple[float, float]]] = {}
    for span in trace.operations:
        ground = next(
            (ground for starts, ground in KINDS.values() if span.name.startswith(starts)), OTHER[1]
        )
        bars.setdefault(ground, []).append((span.start * 1e3, (span.end - span.start) * 1e3))
    for ground, where in bars.items():
        axes.broken_barh(where, (0, 0.8), color=ground, lw=0)
    axes.axvline(trace.computed * 1e3, color=INK, lw=1, ls=":")


def _sent(axes, trace, longest: float) -> None:
    ends: list[float] = []
    lanes = []
    for span in trace.sent:
        lane = next((i for i, end in enumerate(ends) if end <= span.start), len(ends))
        ends[lane : lane + 1] = [span.end]
        lanes.append(lane)
    high = 0.8 / max(1, len(ends))
    for number, (span, lane) in enumerate(zip(trace.sent, lanes, strict=True)):
        start, length = span.start, span.end - span.start
        where = (1 + lane * high, high * 0.92)
        axes.broken_barh([(start * 1e3, length * 1e3)], where, color=SENT[1], ec=PAPER, lw=0.4)
        if length / longest > 0.03 and high > 0.3:  # room for a digit
            axes.text((start + length / 2) * 1e3, where[0] + where[1] / 2, number,
                      color=ink_on(SENT[1]), ha="center", va="center_baseline")  # fmt: skip
