"""Speed on one device: a ladder of recipes, and when waiting for a faster step has paid off."""

import math
import textwrap
from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from plots.marks import beside, key
from plots.tables import Table, provenance
from plots.theme import BAD, INK, QUIET, WIDTH, color, style
from plots.theme import unit as name_unit

MAIN, SIDE = color(0), color(2)
BAR = 0.36  # of a row: the height of its bar, below the words
WORDS = {"batch_times": "times the batch", "rate_rule": "rate", "accumulate": "microbatches"}
HEAD = ["row", "samples/s", "times", "compile", "of peak", "memory", "note"]
Way = tuple[float, float]  # seconds before the first step, seconds a step


def ladder(rows: Iterable[Mapping], title: str = "") -> Figure:
    """Draw a bar a row of `rankbook.speed.run`: times the samples per second of the first.

    Dark bars are the main line, each on top of the one before; light ones are sides, which branch
    off the row named above them. The thin line goes from the 10th to the 90th percentile. Behind
    a name stands what changes; a row that was skipped or failed says why. Raises ValueError
    without a row that ran.
    """
    rows = list(rows)
    ran = [row for row in rows if "seconds" in row]
    if not ran:
        raise ValueError("ladder: no row has run; give it what rankbook.speed.run returned")
    base = ran[0]["samples_per_s"]
    longest = max(row["samples"] / row["seconds"]["p10"] for row in ran) / base
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 0.56 * len(rows) + 1.1), layout="constrained")
        for y, row in enumerate(rows):
            _name(axes, y, row)
            if "seconds" in row:
                _bar(axes, y, row, base)
            else:
                _reason(axes, y, row)
        axes.axvline(1, color=QUIET, lw=0.8, ls=":", zorder=0)
        axes.set(ylim=(len(rows) - 0.5, -0.6), xlim=(0, longest * 2), yticks=[])
        axes.set_xlabel(f"times the samples per second of the row '{ran[0]['name']}'")
        axes.set_title(title, loc="left")
        if any(_is_side(row) for row in rows):
            key(figure, {"main line": MAIN, "side": SIDE})
    return figure


def ladder_table(results: Iterable[Mapping]) -> Table:
    """The recorded ladders, machine by machine, and a row for a kind that has none yet.

    results: `recorded("speed")`: files of ``benchmarks/speed.py`` or of
    ``benchmarks.ladder --out``. Columns in which nothing stands are left out.
    """
    results = [result for result in results if result.get("ladder")]
    lines = []
    for result in results:
        lines.append([provenance(result), *[""] * (len(HEAD) - 1)])
        lines += [_line(row) for row in result["ladder"]]
    for kind in ("CPU", "GPU"):
        if not any(result["kind"] == kind for result in results):
            lines.append([kind, *[""] * (len(HEAD) - 2), "not measured yet"])
    used = [i for i in range(len(HEAD)) if i == 0 or any(line[i] for line in lines)]
    return Table([HEAD[i] for i in used], [[line[i] for i in used] for line in lines])


def what_changes(row: Mapping) -> str:
    """The switches in which a row differs from its base: "attention: eager → sdpa"."""
    return ", ".join(
        f"{WORDS.get(name, name)}: {old} → {new}" for name, (old, new) in row["switch"].items()
    )


def _is_side(row: Mapping) -> bool:
    return bool(row.get("side"))


def _why_not(row: Mapping) -> str:
    """Of a row that did not run: what happened, without the row's name."""
    if "error" in row:
        return f"failed: {row['error'].removeprefix(row['name'] + ': ')}"
    return f"skipped: {row['skipped']}"


def _name(axes, y: int, row: Mapping) -> None:
    """Above the bar: the row's name, and behind it what changes; in a side, on which."""
    top, ink = y - 0.06, INK if "seconds" in row else QUIET
    name = axes.text(0, top, row["name"], va="bottom", color=ink, weight="bold")
    change = what_changes(row)
    if _is_side(row):
        change = f"{change} (on {row['base']})"
    axes.annotate(change, (1, 0), (8, 0), xycoords=name, textcoords="offset points",
                  va="bottom", color=QUIET)  # fmt: skip


def _bar(axes, y: int, row: Mapping, base: float) -> None:
    times, ground = row["samples_per_s"] / base, SIDE if _is_side(row) else MAIN
    axes.barh(y + BAR / 2, times, BAR, color=ground)
    ends = [row["samples"] / row["seconds"][end] / base for end in ("p90", "p10")]
    axes.hlines(y + BAR / 2, *ends, color=INK, lw=1)
    rate, peak = f"{row['samples_per_s']:,.3g}", row.get("peak_share")
    words = f"{times:.2f}x, {rate} samples/s"
    if peak:
        words = f"{times:.2f}x, {rate} samples/s, {peak:.0%} of peak"
    beside(axes, max(times, ends[1]), y + BAR / 2, words)


def _reason(axes, y: int, row: Mapping) -> None:
    words = textwrap.shorten(_why_not(row), 56, placeholder=" …")
    axes.text(0, y + BAR / 2, words, va="center_baseline", style="italic",
              color=BAD if "error" in row else QUIET)  # fmt: skip


def _line(row: Mapping) -> list[str]:
    """One row of the table."""
    if "seconds" not in row:
        return [row["name"], *[""] * (len(HEAD) - 2), _why_not(row)]
    share, memory, compiling = (row.get(key) for key in ("peak_share", "peak_bytes", "compile_s"))
    return [
        row["name"],
        f"{row['samples_per_s']:,.4g}",
        _spread(row.get("times")),
        f"{compiling:.0f} s" if compiling else "",
        f"{share:.1%}" if share else "",
        f"{memory / 2**30:.1f} GiB" if memory else "",
        "side" if _is_side(row) else "",
    ]


def _spread(times: Mapping | None) -> str:
    """The median, and in brackets the 10th and 90th percentile."""
    return f"{times['median']:.2f} ({times['p10']:.2f} to {times['p90']:.2f})" if times else ""


def break_even(ways: Mapping[str, Way], unit: str = "steps") -> Figure:
    """Draw the time since the start against the steps done: one line a way.

    ways: name to (seconds before the first step, seconds a step). The first is what the others
    are held against; a dot marks where one of them overtakes it, and the legend says after how
    many steps, or that it never will. Raises ValueError for fewer than two ways.
    """
    if len(ways) < 2:
        raise ValueError("break_even: one line crosses nothing; give it two ways or more")
    first = next(iter(ways.values()))
    crossings = {name: break_even_steps(first, way) for name, way in ways.items()}
    end = 1.6 * max(at or 0.0 for at in crossings.values()) or _far(list(ways.values()))
    steps = np.array([0.0, end])
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 3.4), layout="constrained")
        looks = {}
        for i, (name, (wait, step)) in enumerate(ways.items()):
            label = _label(name, (wait, step), crossings[name] if i else math.nan, unit)
            (looks[label],) = axes.plot(steps, wait + step * steps, color=color(i))
            if i and (at := crossings[name]):
                _mark(axes, at, wait + step * at, color(i))
        name_unit(axes, "seconds since the start")
        axes.set(xlabel=unit, xlim=(0, end), ylim=(0, None))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.grid(True)
        key(figure, looks, columns=1)
    return figure


def break_even_steps(first: Way, other: Way) -> float | None:
    """How many steps until `other` has overtaken `first`, both (seconds before, seconds a step).

    0 if it is ahead from the start; None if its step is not the faster one, and it never will.
    """
    wait, gain = other[0] - first[0], first[1] - other[1]
    if wait <= 0 and gain >= 0:
        return 0.0
    return wait / gain if gain > 0 else None


def _far(ways: list[Way]) -> float:
    """Where to end without a crossing: the longest wait is then half of the time."""
    return max(20.0, max(wait for wait, _ in ways) / min(step for _, step in ways))


def _label(name: str, way: Way, at: float | None, unit: str) -> str:
    wait, step = (_time(seconds) for seconds in way)
    if at is None and way[0]:
        return f"{name}: {wait}, then {step} a step; never even"
    if at is None:
        return f"{name}: {step} a step; never even"
    if at > 0:
        return f"{name}: {wait}, then {step} a step; even after {math.ceil(at):,} {unit}"
    return f"{name}: {wait}, then {step} a step" if way[0] else f"{name}: {step} a step"


def _mark(axes, at: float, seconds: float, ground: str) -> None:
    axes.vlines(at, 0, seconds, color=QUIET, lw=1, ls=":")
    axes.plot(at, seconds, "o", color=ground, mec=INK, ms=6, zorder=3)


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
