"""Jobs whose nodes come and go: who lives when, which step is done, and the loss."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.events import Gap, World, elastic_gaps, elastic_worlds, grouped
from plots.marks import key, spread
from plots.theme import GROUND, INK, LINE, PAPER, QUIET, WIDTH, color, style, unit

LABELS, NUMBER = 0.4, 0.2  # inches: beside the axes, and of a fault's number
GAP = GROUND  # of the seconds without a step
WORLDS = {1: 2, 2: 0, 3: 1, 4: 4, 6: 1}  # world size: the number of its colour, if not the same
CONTROL: dict[str, Any] = {"color": LINE, "lw": 5}
RING: dict[str, Any] = {"marker": "o", "ms": 7, "mfc": "none", "mew": 1.1}


def elastic_timeline(
    events: Sequence[Mapping],
    faults: Iterable[tuple[float, str, str]] = (),
    control: Mapping[int, float] | None = None,
) -> Figure:
    """Draw a run: a row for each node, the finished steps, and the loss.

    events: those of all ranks. faults: (time, node, what happened), numbered in the order of time.
    A bar is the life of one worker, from its first event to its last, in the colour of its world
    size. Grey is the time without a step. control: the loss of each step of an uninterrupted run;
    with it the losses stand on its line, by step, and what was done again is ringed; without it
    they stand below the steps, by seconds. Raises ValueError if no rank 0 finished a step.
    """
    events, faults = sorted(events, key=lambda e: e["time"]), sorted(faults)
    rows, worlds = list(dict.fromkeys(e["node"] for e in events)), elastic_worlds(events)
    told = [f"{n}  {node}: {what}" for n, (_, node, what) in enumerate(faults, 1)]
    with style():
        figure, (lives, steps, losses, below) = _panels(len(rows), len(told))
        timed = [lives, steps] if control is not None else [lives, steps, losses]
        zero = events[0]["time"]
        below.axis("off")
        below.text(0, 1, "\n".join(told), transform=below.transAxes, va="top", linespacing=1.4)
        _lives(lives, events, rows, zero)
        _curve(steps, worlds, zero, "step")
        for gap in elastic_gaps(events):
            _mark_gap(timed, gap, zero)
        span = 1.02 * (events[-1]["time"] - zero)
        _mark_faults(timed, [(time - zero, node) for time, node, _ in faults], rows, span)
        if control is None:
            _curve(losses, worlds, zero, "loss")
        else:
            _on_control(losses, worlds, control)
        _name_times(timed, rows, span)
        unit(losses, "loss")
        key(figure, _looks(events, control is not None))
    return figure


def _panels(rows: int, words: int) -> tuple[Figure, Sequence[Axes]]:
    """A figure of lives, steps, losses, and room for the words of the faults."""
    heights = [0.34 * rows + 0.3, 1.1, 1.2, 0.195 * words + 0.01]
    size = (WIDTH, sum(heights) + 1.5)
    return plt.subplots(4, figsize=size, height_ratios=heights, layout="constrained")


def _looks(events: Sequence[Mapping], controlled: bool) -> dict[str, Any]:
    sizes = sorted({e["world_size"] for e in events})
    looks: dict[str, Any] = {f"world size {n}": _world_color(n) for n in sizes}
    looks["no step"] = {"facecolor": GAP, "edgecolor": LINE, "lw": 0.8}
    if controlled:
        looks["never interrupted"] = Line2D([], [], **CONTROL)
        looks["done again"] = Line2D([], [], ls="", **(RING | {"mec": INK}))
    return looks


def _name_times(timed: Sequence[Axes], rows: list[str], seconds: float) -> None:
    """Name what stands on the axis of seconds, the lives of workers above all."""
    lives, steps = timed[:2]
    lives.set(yticks=range(len(rows)), yticklabels=rows, ylim=(len(rows) - 0.4, -0.95))
    lives.tick_params(left=False, bottom=False)
    lives.spines[["left", "bottom"]].set_visible(False)
    unit(steps, "step")
    timed[-1].set_xlabel("seconds")
    for each in timed:
        each.set_xlim(0, seconds)
        each.tick_params(labelbottom=each is timed[-1])


def _world_color(size: int) -> str:
    return color(WORLDS.get(size, size))


def _mark_gap(timed: Sequence[Axes], gap: Gap, zero: float) -> None:
    for each in timed:
        each.axvspan(gap.start - zero, gap.end - zero, color=GAP, lw=0, zorder=0)
    middle = (gap.start + gap.end) / 2 - zero
    where = timed[1].get_xaxis_transform()
    timed[1].text(middle, 0.03, f"{gap.seconds:.1f}", transform=where, ha="center")


def _lives(axes: Axes, events: Sequence[Mapping], rows: list[str], zero: float) -> None:
    """A bar for each worker; workers of one node side by side in its row."""
    for own in grouped(events, "attempt", "pid"):
        first, start, end = own[0], own[0]["time"] - zero, own[-1]["time"] - zero
        local = sorted({e["rank"] for e in events if _same(e, first, "attempt", "node")})
        height = 0.62 / len(local)
        top = rows.index(first["node"]) - 0.31 + local.index(first["rank"]) * height
        look = {"color": _world_color(first["world_size"]), "ec": PAPER, "lw": 0.6}
        axes.barh(top, end - start, left=start, height=height, align="edge", **look)


def _same(one: Mapping, other: Mapping, *names: str) -> bool:
    return all(one[name] == other[name] for name in names)


def _curve(axes: Axes, worlds: list[World], zero: float, what: str) -> None:
    """The "step" or the "loss" of all steps, by seconds, a line for each world."""
    for world in worlds:
        times = [time - zero for time, _, _ in world.steps]
        values = [loss if what == "loss" else step for _, step, loss in world.steps]
        axes.plot(times, values, color=_world_color(world.size), marker="o", ms=2.2, lw=1.2)


def _on_control(axes: Axes, worlds: list[World], control: Mapping[int, float]) -> None:
    """Losses by step, on the line of the uninterrupted run; a ring around what was done again."""
    axes.plot(list(control), list(control.values()), zorder=1, **CONTROL)
    done = set()
    for world in worlds:
        look: dict[str, Any] = {"color": _world_color(world.size), "ls": ""}
        steps = [(step, loss) for _, step, loss in world.steps]
        again = [point for point in steps if point[0] in done]
        done |= {step for step, _ in steps}
        axes.plot(*zip(*steps, strict=True), marker="o", ms=2.6, zorder=3, **look)
        if again:
            axes.plot(*zip(*again, strict=True), zorder=2, **(look | RING | {"mec": look["color"]}))
    axes.set(xlabel="step", xlim=(0, max(done) + 1))


def _mark_faults(
    timed: Sequence[Axes], faults: list[tuple[float, str]], rows: list[str], span: float
) -> None:
    """A number above each fault, beside one another where faults are close, and a line down."""
    inches = WIDTH - LABELS
    places = spread([time / span * inches for time, _ in faults], NUMBER, inches)
    for number, ((time, node), place) in enumerate(zip(faults, places, strict=True), 1):
        for each in timed:
            each.axvline(time, color=QUIET, lw=0.8, ls=":", zorder=1)
        row, x = rows.index(node) if node in rows else 0, place / inches * span
        timed[0].plot([x, time, time], [-0.72, -0.42, row], color=INK, lw=0.8)
        timed[0].plot(time, row, "v", ms=4, color=INK)
        timed[0].text(x, -0.72, str(number), ha="center", va="center", color=PAPER,
                      bbox={"boxstyle": "circle,pad=0.12", "fc": INK, "ec": INK})  # fmt: skip
