"""What padding costs: batches drawn to scale, and how much of the cost each cure recovers."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.marks import key
from plots.theme import INK, QUIET, SMALLEST, WIDTH, color, ink_on, style

REAL, OTHER = color(0), color(2)  # OTHER: the next review in a packed batch
EMPTY = to_rgba(color(1), 0.4)
COLUMNS = 2  # panels beside each other
GAP = 2.0  # rows between two batches
Batches = Sequence[tuple[Sequence[int], int]]  # of each: the lengths, and the width


def padding(ways: Mapping[str, Sequence], rows: int | None = None) -> Figure:
    """Draw batches to scale: a row a review, its real tokens dark, its padding light.

    ways: name to batches, each a `rankbook.speed.Batch` or (lengths of its reviews, width that
    they are padded to). Width 0 is a packed batch: its reviews lie end to end, shown in lines of
    the longest width. Above each stands the share of padding in what is computed. rows: the
    height of all panels, in rows (that of the highest). Raises ValueError without batches.
    """
    ways = {name: [_plain(batch) for batch in batches] for name, batches in ways.items()}
    if not ways or not all(ways.values()):
        raise ValueError("padding: there is no batch to draw; give it {way: batches}")
    widest = max(max([width, *lengths]) for way in ways.values() for lengths, width in way)
    heights = [sum(_height(batch, widest) + GAP for batch in way) for way in ways.values()]
    with style():
        columns = min(COLUMNS, len(ways))
        lines = -(-len(ways) // columns)
        figure, grid = plt.subplots(
            lines, columns, figsize=(WIDTH, 2.3 * lines + 0.6), sharey=True, sharex=True,
            squeeze=False, layout="constrained",
        )  # fmt: skip
        for axes in grid.flat[len(ways) :]:
            axes.remove()
        for axes, (name, batches) in zip(grid.flat, ways.items(), strict=False):
            top = 0.0
            for batch in batches:
                (_packed if batch[1] == 0 else _padded)(axes, batch, top, widest)
                top += _height(batch, widest) + GAP
            axes.set(xlim=(0, widest), ylim=(rows or max(heights), -0.5), xticks=[], yticks=[])
            axes.set_xlabel(f"0 to {widest} tokens")
            axes.set_title(f"{name}\n{_share(batches):.0%} padding", loc="left")
        figure.supylabel("reviews, batch by batch", size=SMALLEST, color=QUIET)
        key(figure, _looks(ways))
    return figure


def padding_recovered(seconds: Mapping[str, Mapping], arithmetic: Mapping[str, float]) -> Figure:
    """Draw how much faster each way of batching is than the first, which pads the most.

    seconds: way to "median", "p10" and "p90" of the same samples' time, and "gain", the same of
    the ratios within a turn; without it a bar is the ratio of the medians. arithmetic: way to what
    it computes, padding included, divided by what the real tokens need. The dashed line is the
    limit without any padding, the tick on a bar that of its own arithmetic; in the bar stands
    what `recovered` gives. Raises ValueError without a way.
    """
    if not seconds:
        raise ValueError("padding_recovered: there is no way of batching; give it {way: seconds}")
    (first, slow), best = next(iter(seconds.items())), 0.0
    shares = recovered(seconds, arithmetic)
    with style():
        size = WIDTH, 0.48 * len(seconds) + 1.2
        figure, axes = plt.subplots(figsize=size, layout="constrained")
        for y, (way, time) in enumerate(seconds.items()):
            gain = time.get("gain") or {
                name: slow["median"] / time[end]
                for name, end in (("median", "median"), ("p10", "p90"), ("p90", "p10"))
            }
            limit = arithmetic[first] / arithmetic[way]
            best = max(best, gain["p90"], limit, arithmetic[first])
            axes.barh(y, gain["median"], 0.62, color=color(0 if y else 7))
            axes.hlines(y, gain["p10"], gain["p90"], color=INK, lw=0.8)
            axes.vlines(limit, y - 0.38, y + 0.38, color=color(1), lw=2.2)
            words = f"{shares[way]:.0%} recovered" if y else ""
            axes.text(0.03, y, words, va="center_baseline", color=ink_on(color(0)))
        axes.axvline(arithmetic[first], color=QUIET, ls="--", lw=1.2, zorder=0)
        axes.set_yticks(range(len(seconds)), list(seconds))
        axes.set(ylim=(len(seconds) - 0.5, -0.5), xlim=(0, best * 1.05))
        axes.set_xlabel(f"times as fast as '{first}'")
        looks = {
            "as its arithmetic": Line2D([], [], color=color(1), lw=2.2),
            "as the arithmetic without padding": Line2D([], [], color=QUIET, ls="--", lw=1.2),
        }
        key(figure, looks, columns=2)
    return figure


def recovered(seconds: Mapping[str, Mapping], arithmetic: Mapping[str, float]) -> dict[str, float]:
    """The share of the padding's cost that each way saves: 0 is that of the first, 1 all of it.

    Of the first way's time, only the part beyond the real tokens' arithmetic can be saved. Raises
    ValueError if the first way pads nothing.
    """
    first = next(iter(seconds))
    if arithmetic[first] <= 1:
        raise ValueError(f"recovered: {first!r} pads nothing, so there is nothing to recover")
    slow = seconds[first]["median"]
    limit = slow / arithmetic[first]
    return {way: (slow - time["median"]) / (slow - limit) for way, time in seconds.items()}


def _plain(batch) -> tuple[list[int], int]:
    """(lengths, width) of a batch; 0 is the width of a packed one."""
    if isinstance(batch, tuple):
        return batch
    if batch.offsets is not None:
        return batch.offsets.diff().tolist(), 0
    width = batch.ids.shape[1]
    return [width] * len(batch.ids) if batch.mask is None else batch.mask.sum(1).tolist(), width


def _height(batch: tuple[Sequence[int], int], widest: int) -> float:
    lengths, width = batch
    return len(lengths) if width else -(-sum(lengths) // widest)


def _share(batches: Batches) -> float:
    real = sum(sum(lengths) for lengths, _ in batches)
    computed = sum(len(lengths) * width if width else sum(lengths) for lengths, width in batches)
    return 1 - real / computed


def _padded(axes, batch: tuple[Sequence[int], int], top: float, widest: int) -> None:
    lengths, width = batch
    places = [top + row for row in range(len(lengths))]
    axes.barh(places, width, 0.8, align="edge", color=EMPTY)
    axes.barh(places, lengths, 0.8, align="edge", color=REAL)


def _packed(axes, batch: tuple[Sequence[int], int], top: float, widest: int) -> None:
    """One line of tokens, folded at the widest: two colours in turn tell the reviews apart."""
    start = 0
    for number, length in enumerate(batch[0]):
        end = start + length
        while start < end:
            stop = min(end, (start // widest + 1) * widest)
            ground = (REAL, OTHER)[number % 2]
            axes.barh(top + start // widest, stop - start, 0.8, left=start % widest,
                      align="edge", color=ground)  # fmt: skip
            start = stop


def _looks(ways: Mapping[str, Batches]) -> dict[str, Any]:
    if any(width == 0 for way in ways.values() for _, width in way):
        return {"real tokens": REAL, "of the next review": OTHER, "padding": EMPTY}
    return {"real tokens": REAL, "padding": EMPTY}
