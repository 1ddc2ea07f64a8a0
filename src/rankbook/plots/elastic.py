"""Jobs whose nodes come and go: who lives when, which step is done, and what faults cost."""

from collections.abc import Iterable, Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from rankbook.plots.events import Gap, World, elastic_gaps, elastic_worlds, grouped
from rankbook.plots.tables import Table
from rankbook.plots.theme import INK, QUIET, color, style

WIDTH = 5.4  # inches
GAP = "#eceff2"  # the ground of the seconds without a step
WORLDS = {1: color(2), 2: color(0), 3: color(1), 4: color(4)}  # by world size; more: as style says
LOOKS = {"warm": (color(0), "o"), "cold": (color(1), "s")}  # of processes: colour, marker


def elastic_timeline(
    events: Sequence[Mapping], faults: Iterable[tuple[float, str, str]] = ()
) -> Figure:
    """Draw a run: a row for each node, the finished steps, and the loss, on one axis of seconds.

    events: those of all ranks. faults: (time, node, what happened), numbered in the order of time.
    A bar is the life of one worker, from its first event to its last, in the colour of its world
    size. Grey is the time without a step. Raises ValueError if no rank 0 finished a step.
    """
    events, faults = sorted(events, key=lambda e: e["time"]), sorted(faults)
    rows = list(dict.fromkeys(e["node"] for e in events))
    key = [f"{n}  {node}: {what}" for n, (_, node, what) in enumerate(faults, 1)]
    heights = [0.3 * len(rows) + 0.25, 1.1, 1.0, 0.17 * -(-len(key) // 2) + 0.01]
    zero = events[0]["time"] if events else 0.0
    with style():
        figure, (*axes, below) = plt.subplots(
            4, figsize=(WIDTH, sum(heights) + 0.8), height_ratios=heights, layout="constrained"
        )
        _list(below, key)
        _curves(axes[1], axes[2], elastic_worlds(events), zero)
        for gap in elastic_gaps(events):
            _mark_gap(axes, gap, zero)
        _lives(axes[0], events, rows, zero)
        for number, (time, node, _) in enumerate(faults, 1):
            _mark_fault(axes, number, time - zero, rows.index(node) if node in rows else 0)
        _name(axes, rows, events[-1]["time"] - zero)
        sizes = sorted({e["world_size"] for e in events})
        patches = [Patch(color=_world_color(n), label=f"world size {n}") for n in sizes]
        patches.append(Patch(color=GAP, label="no step"))
        figure.legend(handles=patches, loc="outside upper left", ncols=4, fontsize=8.5,
                      handlelength=1.1, columnspacing=1.2)  # fmt: skip
        figure.align_ylabels()
    return figure


def _name(axes, rows: list[str], seconds: float) -> None:
    lives, steps, losses = axes
    lives.set(yticks=range(len(rows)), yticklabels=rows, ylim=(len(rows) - 0.4, -0.95))
    lives.tick_params(left=False, bottom=False)
    lives.spines[["left", "bottom"]].set_visible(False)
    steps.set_ylabel("step")
    losses.set(ylabel="loss", xlabel="seconds")
    for each in axes:
        each.set_xlim(0, seconds * 1.02)
        each.tick_params(labelbottom=each is losses)


def _world_color(size: int) -> str:
    return WORLDS.get(size, color(size))


def _mark_gap(axes, gap: Gap, zero: float) -> None:
    for each in axes:
        each.axvspan(gap.start - zero, gap.end - zero, color=GAP, lw=0, zorder=0)
    middle = (gap.start + gap.end) / 2 - zero
    where = axes[1].get_xaxis_transform()
    axes[1].text(middle, 0.03, f"{gap.seconds:.1f}", transform=where, ha="center", size=7.5)


def _lives(axes, events: Sequence[Mapping], rows: list[str], zero: float) -> None:
    """A bar for each worker; workers of one node side by side in its row."""
    for own in grouped(events, "attempt", "pid"):
        first, start, end = own[0], own[0]["time"] - zero, own[-1]["time"] - zero
        local = sorted({e["rank"] for e in events if _same(e, first, "attempt", "node")})
        height = 0.62 / len(local)
        top = rows.index(first["node"]) - 0.31 + local.index(first["rank"]) * height
        look = {"color": _world_color(first["world_size"]), "ec": "white", "lw": 0.6}
        axes.barh(top, end - start, left=start, height=height, align="edge", **look)


def _same(one: Mapping, other: Mapping, *names: str) -> bool:
    return all(one[name] == other[name] for name in names)


def _curves(steps_axes, loss_axes, all_worlds: list[World], zero: float) -> None:
    for world in all_worlds:
        times = [time - zero for time, _, _ in world.steps]
        look = {"color": _world_color(world.size), "marker": "o", "ms": 2.2, "lw": 1.2}
        steps_axes.plot(times, [step for _, step, _ in world.steps], **look)
        loss_axes.plot(times, [loss for _, _, loss in world.steps], **look)


def _mark_fault(axes, number: int, time: float, row: int) -> None:
    for each in axes:
        each.axvline(time, color=QUIET, lw=0.8, ls=":", zorder=1)
    axes[0].plot([time, time], [-0.75, row], color=INK, lw=0.8)
    axes[0].plot(time, row, "v", ms=4, color=INK)
    axes[0].text(time, -0.72, str(number), ha="center", va="center", size=7.5, color="white",
                 bbox={"boxstyle": "circle,pad=0.15", "fc": INK, "ec": INK})  # fmt: skip


def _list(axes, key: list[str]) -> None:
    """The words of all faults, in two columns."""
    axes.axis("off")
    half = -(-len(key) // 2)
    for left, words in ((0.0, key[:half]), (0.5, key[half:])):
        axes.text(left, 1, "\n".join(words), transform=axes.transAxes, va="top", size=8.5,
                  linespacing=1.4)  # fmt: skip


def elastic_table(events: Sequence[Mapping], faults: Iterable[tuple[float, str, str]]) -> Table:
    """One row a fault: the worlds before and after it, and what it cost.

    faults: (time, node, what happened). A fault belongs to the first gap that ends after it; where
    several do, the first has its numbers. One after which nobody stopped has none.
    """
    between, rows, taken = elastic_gaps(events), [], None
    for number, (time, node, what) in enumerate(sorted(faults), 1):
        row = [str(number), f"{node}: {what}", "", "", "", ""]
        gap = next((gap for gap in between if gap.end > time), None)
        if gap is not None:
            row[3] = f"{gap.end - time:.1f}"
        if gap is not None and gap is not taken:
            row[2], row[4:] = (
                f"{gap.before} to {gap.after}",
                [f"{gap.seconds:.1f}", str(gap.redone)],
            )
        rows.append(row)
        taken = gap
    head = ["", "what happened", "world size", "s to the next step", "s without a step", "redone"]
    return Table(head, rows)


def soak(result: Mapping) -> Figure:
    """Draw the seconds to the next step after each fault: the median, and the 10th to the 90th %.

    result: of ``benchmarks/soak.py``, with rows of "processes" (warm or cold), "fault", "count",
    "median", "p10" and "p90", in seconds. Raises ValueError without a row.
    """
    if not result["rows"]:
        raise ValueError("soak: the result has no rows; record some with benchmarks/soak.py")
    names = list(dict.fromkeys(row["fault"] for row in result["rows"]))
    with style():
        figure, axes = plt.subplots(figsize=(6.4, 0.9 + 0.3 * len(names)), layout="constrained")
        for row in result["rows"]:
            y = names.index(row["fault"]) + (0.16 if row["processes"] == "cold" else -0.16)
            ground, mark = LOOKS[row["processes"]]
            axes.plot([row["p10"], row["p90"]], [y, y], lw=2, color=ground)
            axes.plot(row["median"], y, ms=5, color=ground, marker=mark)
        counts = {row["fault"]: row["count"] for row in reversed(result["rows"])}
        labels = [f"{name.replace('_', ' ')} ({counts[name]})" for name in names]
        axes.set_yticks(range(len(names)), labels)
        axes.set(ylim=(len(names) - 0.4, -0.6), xlim=(0, None), xlabel="seconds to the next step")
        axes.tick_params(left=False)
        axes.grid(axis="x")
        for name in dict.fromkeys(row["processes"] for row in result["rows"]):
            ground, mark = LOOKS[name]
            label = f"{name} processes"
            axes.plot([], [], ls="none", label=label, color=ground, marker=mark)
        figure.legend(loc="outside lower center", ncols=2, fontsize=8.5)
    return figure
