"""Samples: who read which, how often, and how a global batch is cut for its ranks."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from plots.marks import key
from plots.theme import BAD, GOOD, GROUND, INK, PAPER, QUIET, WIDTH, color, ink_on, style

ONCE, MORE, NEVER = GOOD, BAD, PAPER  # of all readers together
RANK = re.compile(r"rank (\d+)")  # whose colour a reader has
LABELS = {ONCE: "once", MORE: "twice or more", NEVER: "never"}
HATCH = {NEVER: "////"}  # of a sample that nobody read: it differs without colours, too
CELL, DIGIT = 0.25, 0.115  # inches: of a cell where there is room, and what a number in it needs
LETTER = 0.085  # inches: of words beside the cells
BEHIND = 0.85  # inches: room for the words behind a row
MOST = 60  # samples: more would not be seen on a page
CUT_CELL, CUT_MOST = 0.3, 16  # of `batch_cut`, whose cells hold numbers: inches, samples


def shares(audits: Any) -> Figure:
    """Draw what each reader read: a column a sample, a row a reader, and below them all together.

    audits: a `rankbook.data.SampleAudit`, or several by title, drawn below each other. The bottom
    row says how often a sample was read. A number in a reader's cell says how often it read that
    sample, if not once; "+2 others" behind a row, that it read two things not in the set.
    Raises ValueError without an audit, and for more than 60 samples.
    """
    by_title = audits if isinstance(audits, Mapping) else {"": audits}
    if not by_title:
        raise ValueError("shares: no audit; give it what audit_samples or gather_audit returned")
    longest = max(len(audit.times) for audit in by_title.values())
    if longest > MOST:
        raise ValueError(f"shares: {longest} samples; {MOST} are the most that can be drawn")
    names = [name for audit in by_title.values() for name in audit.by_reader]
    left = 0.15 + LETTER * max(len(name) for name in [*names, "together"])
    behind = BEHIND if any(map(_others, by_title.values())) else 0.08
    cell = min(CELL, (WIDTH - left - behind) / longest)
    heights = [(len(audit.by_reader) + 1.4) * max(cell, 0.15) for audit in by_title.values()]
    with style():
        figure, axes = plt.subplots(
            len(by_title),
            figsize=(WIDTH, sum(heights) + 0.5 * len(heights) + 0.35),
            height_ratios=heights,
            squeeze=False,
            layout="constrained",
        )
        for below, (title, audit) in zip(axes[:, 0], by_title.items(), strict=True):
            _grid(below, audit, WIDTH - left, cell)
            below.set_title(f"{title}: {_counts(audit)}" if title else _counts(audit))
        key(figure, {label: _look(ground) for ground, label in LABELS.items()})
    return figure


def _look(ground: str) -> dict[str, Any]:
    hatched = {"hatch": HATCH.get(ground), "edgecolor": QUIET, "lw": 0.6}
    return {"facecolor": ground} | (hatched if ground in HATCH else {})


def _others(audit: Any) -> int:
    """How much the readers read that is not in the set, the most of any of them."""
    outside = [sum(s not in audit.times for s in read) for read in audit.by_reader.values()]
    return max(outside, default=0)


def _counts(audit: Any) -> str:
    found = Counter(audit.times.values())
    more = sum(found.values()) - found[0] - found[1] - found[2]
    parts = [f"{found[1]} once", f"{found[2]} twice", f"{found[0]} never"]
    return ", ".join(parts + [f"{more} more often"] * (more > 0))


def _grid(axes, audit: Any, room: float, cell: float) -> None:
    """room: inches right of the readers' names. cell: inches of a cell."""
    numbers = cell >= DIGIT
    samples, rows = list(audit.times), len(audit.by_reader)
    for row, (reader, read) in enumerate(audit.by_reader.items()):
        counts = Counter(read)
        own = RANK.search(reader)
        paint = color(int(own[1]) if own else row)
        for column, sample in enumerate(samples):
            ground = paint if counts[sample] else GROUND
            said = counts[sample] if numbers and counts[sample] > 1 else ""
            _cell(axes, row, column, ground, said)
        if others := len(read) - sum(counts[sample] for sample in samples):
            axes.text(len(samples) + 0.2, row + 0.5, f"+{others} others", va="center")
    for column, sample in enumerate(samples):
        times = audit.times[sample]
        _cell(axes, rows + 0.4, column, _ground(times), times if numbers else "")
    axes.set(xlim=(0, room / cell), ylim=(rows + 1.4, 0))
    ticks = [*(row + 0.5 for row in range(rows)), rows + 0.9]
    axes.set_yticks(ticks, [*audit.by_reader, "together"])
    step = 1 if cell > 0.2 else 5 if cell > 0.08 else 10
    axes.set_xticks([c + 0.5 for c in range(0, len(samples), step)], samples[::step])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _cell(axes, row: float, column: int, ground: str, text) -> None:
    box = Rectangle((column, row), 1, 1, facecolor=ground, ec=PAPER, lw=1)
    axes.add_patch(box)
    if hatch := HATCH.get(ground):
        box.set(hatch=hatch, edgecolor=QUIET, lw=0.6)
        return  # a number would not be read on it
    if text != "":
        look = {"ha": "center", "va": "center_baseline", "color": ink_on(ground)}
        axes.text(column + 0.5, row + 0.5, str(text), **look)


def _ground(times: int) -> str:
    return (NEVER, ONCE)[times] if times < 2 else MORE


def counts(audits: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw a bar for each setting: the samples that no, that one and that several batches held.

    audits: a `rankbook.data.SampleAudit` by title of the row, then by title of the column. Every
    bar has the width of its set, and says the numbers. Raises ValueError without an audit.
    """
    columns = list(dict.fromkeys(title for row in audits.values() for title in row))
    if not columns:
        raise ValueError("counts: no audit; give it what gather_audit returned, by row and column")
    with style():
        figure, grid = plt.subplots(
            len(columns), figsize=(WIDTH, (0.42 + 0.27 * len(audits)) * len(columns) + 0.3),
            squeeze=False, layout="constrained",
        )  # fmt: skip
        for axes, title in zip(grid[:, 0], columns, strict=True):
            rows = {name: row[title] for name, row in audits.items() if title in row}
            for y, audit in enumerate(rows.values()):
                _bar(axes, y, audit)
            axes.set_title(", ".join(title.splitlines()))
            axes.set(xlim=(0, 1), xticks=[], ylim=(len(rows) - 0.5, -0.5))
            axes.set_yticks(range(len(rows)), list(rows))
            axes.spines["bottom"].set_visible(False)
        key(figure, {LABELS[ground]: _look(ground) for ground in (NEVER, ONCE, MORE)})
    return figure


def _bar(axes, y: int, audit) -> None:
    left = 0.0
    parts = {NEVER: audit.never, ONCE: audit.once, MORE: audit.twice + audit.more}
    for ground, number in parts.items():
        share = number / audit.total
        look = {"color": ground, "ec": QUIET, "lw": 0.6, "hatch": HATCH.get(ground)}
        look |= {} if ground in HATCH else {"ec": PAPER, "lw": 0.8}
        axes.barh(y, share, left=left, height=0.8, **look)
        if number:
            ink = INK if ground == NEVER else ink_on(ground)
            box = {"boxstyle": "round,pad=0.15", "fc": ground, "ec": "none"}
            axes.text(left + share / 2, y, number, ha="center", va="center_baseline",
                      color=ink, bbox=box if ground in HATCH else None)  # fmt: skip
        left += share


def batch_cut(steps: Sequence[Sequence[Sequence[int]]]) -> Figure:
    """Draw a row for each step: the samples of its global batch, in the colour of their rank.

    steps: for each step the samples of each rank, in the order of the ranks. A number in a cell
    is a sample's. Raises ValueError without a step, and for more than 16 samples in one.
    """
    longest = max((sum(map(len, step)) for step in steps), default=0)
    if not 0 < longest <= CUT_MOST:
        raise ValueError(f"batch_cut: steps of 1 to {CUT_MOST} samples can be drawn, not {longest}")
    ranks = max(map(len, steps))
    with style():
        figure, axes = plt.subplots(
            figsize=(
                min(WIDTH, max(3.4, 1.35 + CUT_CELL * longest)),
                0.4 + 1.2 * CUT_CELL * len(steps),
            ),
            layout="constrained",
        )
        for row, step in enumerate(steps):
            column = 0
            for rank, samples in enumerate(step):
                for sample in samples:
                    _sample(axes, row, column, rank, sample)
                    column += 1
        names = [f"step {n}, {len(step)} ranks" for n, step in enumerate(steps, 1)]
        axes.set_yticks([row + 0.4 for row in range(len(steps))], names)
        axes.set(xlim=(0, longest), ylim=(len(steps), -0.1), xticks=[])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        key(figure, {f"rank {rank}": color(rank) for rank in range(ranks)}, columns=4)
    return figure


def _sample(axes, row: int, column: int, rank: int, sample: int) -> None:
    ground = color(rank)
    axes.add_patch(Rectangle((column, row), 1, 0.8, facecolor=ground, ec=PAPER, lw=1.2))
    axes.text(column + 0.5, row + 0.4, str(sample), ha="center", va="center_baseline",
              color=ink_on(ground))  # fmt: skip


def lost(audits: Mapping[int, Any], proved: Sequence[int] = ()) -> Figure:
    """Draw the part of a set that nobody sees, against the number of ranks.

    audits: a `rankbook.data.SampleAudit` by world size. proved: world sizes to mark, as those
    that were also counted on real ranks. Above a bar stands how many of its samples are never
    seen, in per cent. Raises ValueError without an audit.
    """
    if not audits:
        raise ValueError("lost: no audit; give it a SampleAudit for each world size")
    with style():
        figure, axes = plt.subplots(figsize=(WIDTH, 2.6), layout="constrained")
        for size, audit in audits.items():
            never = audit.never / audit.total
            axes.bar(size, 1 - never, color=ONCE, width=0.8)
            axes.bar(size, never, bottom=1 - never, color=NEVER, width=0.8, ec=QUIET, lw=0.6,
                     hatch=HATCH[NEVER])  # fmt: skip
            axes.text(size, 1.02, f"{100 * never:.0f}", ha="center")
        marked = axes.plot(proved, [0.03] * len(proved), "D", color=INK, ms=5, clip_on=False)
        axes.set(xlabel="ranks", ylim=(0, 1.1), xticks=list(audits), yticks=[])
        axes.set_title("samples of the set that nobody sees, %")
        names: dict[str, Any] = {"seen": ONCE, "never seen": _look(NEVER)}
        if proved:
            names["counted on real ranks"] = marked[0]
        key(figure, names)
    return figure
