"""What more ranks bring: throughput, hidden communication and memory; and who reads for whom."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from rankbook.plots.theme import INK, QUIET, color, style

LINES = {"weak": (color(0), "o"), "strong": (color(1), "s")}
PARTS = {
    "parameters": (color(0), "parameters"),
    "gradients": (color(1), "gradients"),
    "buckets": ("#c9ced4", "buckets"),
    "state": (color(2), "optimizer state"),
}
MIB = 2**20


def more_ranks(picture: Mapping, devices: int, title: str = "") -> Figure:
    """Draw three panels over the number of ranks: throughput, hidden share, memory of a rank.

    picture: what ``benchmarks/scaling.py`` records. rates: mappings of "kind" (weak or strong),
    "ranks" and "rate", rows a second. hidden: of "kind", "ranks", and "median", "p10" and "p90" of
    a share from 0 to 1. memory: of "way", "ranks", and bytes by part. Each may be empty, but not
    the rates. devices: cores or GPUs there are; a dotted line stands there. The dashed line is
    what the rate of one rank would become if nothing were lost. Raises ValueError without rates.
    """
    if not picture.get("rates"):
        raise ValueError("more_ranks: there is no rate to draw; give it the picture of a result")
    counts = sorted({row["ranks"] for row in picture["rates"]})
    with style():
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(7.6, 3.3), layout="constrained")
        _rates(left, picture["rates"], counts, devices)
        _hidden(middle, picture.get("hidden", []), counts)
        _memory(right, picture.get("memory", []), counts)
        for axes in (left, middle, right):
            axes.set_xlabel("ranks")
            axes.set_xticks(range(len(counts)), [str(n) for n in counts])
            axes.set_xlim(-0.5, len(counts) - 0.5)
            axes.grid(axis="y")
            axes.set_axisbelow(True)
        handles = {}
        for axes in (left, right):
            found = zip(*axes.get_legend_handles_labels(), strict=True)
            handles |= {label: handle for handle, label in found}
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=5, fontsize=8)
        figure.suptitle(title, size="medium")
    return figure


def _rates(axes, rates: Iterable[Mapping], counts: list[int], devices: int) -> None:
    by_kind = {kind: {r["ranks"]: r["rate"] for r in rates if r["kind"] == kind} for kind in LINES}
    for kind, points in by_kind.items():
        ground, mark = LINES[kind]
        at = [counts.index(n) for n in points]
        axes.plot(at, list(points.values()), color=ground, marker=mark, ms=4.5, label=kind)
    one = next(points[counts[0]] for points in by_kind.values() if counts[0] in points)
    top = 1.25 * max(rate for points in by_kind.values() for rate in points.values())
    ideal = [one * n / counts[0] for n in counts]
    axes.plot(range(len(counts)), ideal, color=QUIET, ls="--", lw=1.1, label="ideal")
    axes.set_ylim(0, max(top, 2.2 * one))
    if devices in counts and devices < counts[-1]:
        axes.axvline(counts.index(devices), color=QUIET, ls=":", lw=1.1)
    axes.set_title("rows a second, all ranks", loc="left", size=9)


def _hidden(axes, hidden: Iterable[Mapping], counts: list[int]) -> None:
    for i, (kind, (ground, mark)) in enumerate(LINES.items()):
        rows = [row for row in hidden if row["kind"] == kind]
        at = [counts.index(row["ranks"]) + 0.08 * (2 * i - 1) for row in rows]
        middle = [100 * row["median"] for row in rows]
        low = [100 * (row["median"] - row["p10"]) for row in rows]
        high = [100 * (row["p90"] - row["median"]) for row in rows]
        look = {"color": ground, "marker": mark, "ms": 4.5, "elinewidth": 1, "ecolor": QUIET}
        if rows:
            axes.errorbar(at, middle, [low, high], **look)
    axes.set_ylim(0, 100)
    axes.set_title("communication hidden, %", loc="left", size=9)


def _memory(axes, memory: Iterable[Mapping], counts: list[int]) -> None:
    memory = list(memory)
    for row in memory:
        if row["way"] == "DDP":
            low = 0.0
            for part, (ground, label) in PARTS.items():
                size = row.get(part, 0) / MIB
                first = label if row["ranks"] == counts[-1] else None
                at = counts.index(row["ranks"])
                axes.bar(at, size, 0.62, bottom=low, color=ground, label=first)
                low += size
    for way, mark in (("ZeRO optimizer", "D"), ("FSDP", "v")):
        totals = {r["ranks"]: sum(r[p] for p in PARTS) / MIB for r in memory if r["way"] == way}
        at = [counts.index(n) for n in totals]
        if at:
            look = {"color": INK, "marker": mark, "ms": 4.5, "lw": 1, "mec": "white"}
            axes.plot(at, list(totals.values()), label=way, **look)
    axes.set_title("MiB on a rank (bars: DDP)", loc="left", size=9)


def reading_rates(rows: Iterable[Mapping]) -> Figure:
    """Draw what each way of reading gives: a panel a number of ranks, bars by loader workers.

    rows: mappings of "ranks", "workers", "way", "median", "p10" and "p90", such as the rows of
    ``benchmarks/scaling_reading.py``. Raises ValueError without rows.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("reading_rates: no rows; give it those of a recorded result")
    counts, ways = (list(dict.fromkeys(row[key] for row in rows)) for key in ("ranks", "way"))
    wide = 0.8 / len(ways)
    with style():
        figure, grid = plt.subplots(1, len(counts), figsize=(6.8, 2.9), sharey=True, squeeze=False,
                                    layout="constrained")  # fmt: skip
        for axes, n in zip(grid[0], counts, strict=True):
            workers = sorted({row["workers"] for row in rows if row["ranks"] == n})
            for row in rows:
                if row["ranks"] == n:
                    which = ways.index(row["way"])
                    at = workers.index(row["workers"]) + wide * (which - (len(ways) - 1) / 2)
                    spread = [[row["median"] - row["p10"]], [row["p90"] - row["median"]]]
                    axes.bar(at, row["median"], wide, color=color(which), yerr=spread, ecolor=INK,
                             error_kw={"lw": 0.9})  # fmt: skip
            axes.set_xticks(range(len(workers)), [str(count) for count in workers])
            axes.set_title(f"{n} rank{'s' * (n > 1)}", loc="left", size=9.5)
            axes.set_xlabel("workers of a rank")
            axes.grid(axis="y")
            axes.set_axisbelow(True)
        grid[0][0].set_ylabel(rows[0].get("unit", ""))
        patches = [Patch(color=color(i), label=way) for i, way in enumerate(ways)]
        figure.legend(handles=patches, loc="outside upper left", ncols=len(ways), fontsize=8.5)
    return figure
