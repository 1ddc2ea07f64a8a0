"""What more ranks bring: throughput, hidden communication and memory; and who reads for whom."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from plots.marks import key, name_ends
from plots.theme import INK, LINE, PAPER, QUIET, WIDTH, color, style

LINES = {"weak": (color(0), "o"), "strong": (color(1), "s")}
PARTS = {
    "parameters": (color(0), "parameters"),
    "gradients": (color(1), "gradients"),
    "buckets": (LINE, "buckets"),
    "state": (color(2), "optimizer state"),
}
SHARDED = {"ZeRO optimizer": "D", "FSDP": "v"}
MIB = 2**20
Ends = list[tuple[float, str, str]]


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
        figure, grid = plt.subplots(3, figsize=(WIDTH, 6.3), sharex=True, layout="constrained")
        ends = [
            _rates(grid[0], picture["rates"], counts, devices),
            _hidden(grid[1], picture.get("hidden", []), counts),
            _memory(grid[2], picture.get("memory", []), counts),
        ]
        grid[2].set_xlabel("ranks")
        grid[2].set_xticks(range(len(counts)), [str(n) for n in counts])
        grid[2].set_xlim(-0.4, len(counts) - 0.6)
        for axes in grid:
            axes.grid(axis="y")
        if title:
            figure.suptitle(title)
        for axes, names in zip(grid, ends, strict=True):
            if names:
                name_ends(axes, names)
    return figure


def _rates(axes, rates: Iterable[Mapping], counts: list[int], devices: int) -> Ends:
    by_kind = {kind: {r["ranks"]: r["rate"] for r in rates if r["kind"] == kind} for kind in LINES}
    for kind, points in by_kind.items():
        ground, mark = LINES[kind]
        at = [counts.index(n) for n in points]
        axes.plot(at, list(points.values()), color=ground, marker=mark, label=kind)
    one = next(points[counts[0]] for points in by_kind.values() if counts[0] in points)
    top = max(
        1.25 * max(rate for points in by_kind.values() for rate in points.values()), 2.2 * one
    )
    ideal = [one * n / counts[0] for n in counts]
    axes.plot(range(len(counts)), ideal, color=QUIET, ls="--", label="ideal")
    axes.set_ylim(0, top)
    if devices in counts and devices < counts[-1]:
        axes.axvline(counts.index(devices), color=QUIET, ls=":")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("rows a second, all ranks")
    ends = [(list(of.values())[-1], kind, LINES[kind][0]) for kind, of in by_kind.items() if of]
    return [*ends, (min(ideal[-1], top), "ideal", QUIET)]


def _hidden(axes, hidden: Iterable[Mapping], counts: list[int]) -> Ends:
    ends = []
    for i, (kind, (ground, mark)) in enumerate(LINES.items()):
        rows = [row for row in hidden if row["kind"] == kind]
        at = [counts.index(row["ranks"]) + 0.05 * (2 * i - 1) for row in rows]
        middle = [100 * row["median"] for row in rows]
        low = [100 * (row["median"] - row["p10"]) for row in rows]
        high = [100 * (row["p90"] - row["median"]) for row in rows]
        if rows:
            look = {"color": ground, "marker": mark, "elinewidth": 1, "ecolor": QUIET}
            axes.errorbar(at, middle, [low, high], **look)
            ends.append((middle[-1], kind, ground))
    axes.set_ylim(0, 100)
    axes.set_title("communication hidden, %")
    return ends


def _memory(axes, memory: Iterable[Mapping], counts: list[int]) -> Ends:
    memory, ends = list(memory), []
    for row in memory:
        if row["way"] == "DDP":
            low = 0.0
            for part, (ground, label) in PARTS.items():
                size, at = row.get(part, 0) / MIB, counts.index(row["ranks"])
                axes.bar(at, size, 0.55, bottom=low, color=ground, ec=PAPER, lw=0.8)
                if row["ranks"] == counts[-1]:
                    ends.append((low + size / 2, label, ground))
                low += size
    for way, mark in SHARDED.items():
        totals = {r["ranks"]: sum(r[p] for p in PARTS) / MIB for r in memory if r["way"] == way}
        at = [counts.index(n) for n in totals]
        if at:
            axes.plot(at, list(totals.values()), label=way, color=INK, marker=mark, mec=PAPER, ms=7)
            box = {"boxstyle": "round,pad=0.15", "fc": PAPER, "ec": "none"}
            first = at[0], next(iter(totals.values()))
            axes.annotate(way, first, (9, 9), textcoords="offset points", color=INK, bbox=box)
    axes.margins(y=0.12)
    axes.set_title("MiB on a rank; bars: DDP")
    return ends


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
        figure, grid = plt.subplots(1, len(counts), figsize=(WIDTH, 2.6), sharey=True,
                                    squeeze=False, layout="constrained")  # fmt: skip
        for axes, n in zip(grid[0], counts, strict=True):
            workers = sorted({row["workers"] for row in rows if row["ranks"] == n})
            for row in rows:
                if row["ranks"] == n:
                    which = ways.index(row["way"])
                    at = workers.index(row["workers"]) + wide * (which - (len(ways) - 1) / 2)
                    spread = [[row["median"] - row["p10"]], [row["p90"] - row["median"]]]
                    axes.bar(at, row["median"], wide * 0.94, color=color(which), yerr=spread,
                             ecolor=INK, error_kw={"lw": 1})  # fmt: skip
            axes.set_xticks(range(len(workers)), [str(count) for count in workers])
            axes.set_title(f"{n} rank{'s' * (n > 1)}")
            axes.grid(axis="y")
        middle = grid[0][len(counts) // 2]
        middle.set_xlabel("workers of a rank")
        grid[0][0].set_ylabel(rows[0].get("unit", ""))
        key(figure, {way: color(i) for i, way in enumerate(ways)}, columns=len(ways))
    return figure
