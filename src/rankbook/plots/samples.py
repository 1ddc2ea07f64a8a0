"""Samples: who read which, how often, and how a global batch is cut for its ranks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from rankbook.plots.theme import INK, QUIET, color, ink_on, style

GROUND = "#f1f3f5"  # of samples that a reader did not read
ONCE, MORE, NEVER = color(2), color(1), "white"
LABELS = {ONCE: "once", MORE: "twice or more", NEVER: "never"}
HATCH = {NEVER: "////"}  # of a sample that nobody read: it differs without colours, too
CELL, WIDTH = 0.21, 6.4  # inches: of a cell where there is room, and of the widest figure
BEHIND = 4  # cells: room for the words behind a row
MOST = 60  # samples: more would not be seen on a page
CUT_CELL, CUT_MOST = 0.34, 16  # of `batch_cut`, whose cells hold numbers: inches, samples


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
    left = 0.25 + 0.075 * max(len(name) for name in [*names, "together"])
    cell = min(CELL, (WIDTH - left) / (longest + BEHIND))
    heights = [(len(audit.by_reader) + 1.4) * cell for audit in by_title.values()]
    with style():
        figure, axes = plt.subplots(
            len(by_title),
            figsize=(
                max(4.6, left + (longest + BEHIND) * cell),
                sum(heights) + 0.5 * len(heights) + 0.5,
            ),
            height_ratios=heights,
            squeeze=False,
            layout="constrained",
        )
        for below, (title, audit) in zip(axes[:, 0], by_title.items(), strict=True):
            _grid(below, audit, longest)
            below.set_title(f"{title}: {_counts(audit)}" if title else _counts(audit),
                            loc="left", size=9)  # fmt: skip
        patches = [
            Patch(facecolor=ground, label=label, ec=INK, lw=0.4, hatch=HATCH.get(ground))
            for ground, label in LABELS.items()
        ]
        figure.legend(handles=patches, loc="outside lower left", ncols=3, fontsize=8.5)
    return figure


def _counts(audit: Any) -> str:
    found = Counter(audit.times.values())
    more = sum(found.values()) - found[0] - found[1] - found[2]
    parts = [f"{found[1]} once", f"{found[2]} twice", f"{found[0]} never"]
    return ", ".join(parts + [f"{more} more often"] * (more > 0))


def _grid(axes, audit: Any, columns: int) -> None:
    samples, rows = list(audit.times), len(audit.by_reader)
    for row, read in enumerate(audit.by_reader.values()):
        counts = Counter(read)
        for column, sample in enumerate(samples):
            ground = _ground(audit.times[sample]) if counts[sample] else GROUND
            _cell(axes, row, column, ground, counts[sample] if counts[sample] > 1 else "")
        if others := len(read) - sum(counts[sample] for sample in samples):
            axes.text(len(samples) + 0.2, row + 0.5, f"+{others} others", va="center", size=8)
    for column, sample in enumerate(samples):
        times = audit.times[sample]
        _cell(axes, rows + 0.4, column, _ground(times), times)
    axes.set(xlim=(0, columns + BEHIND), ylim=(rows + 1.4, 0), aspect="equal", anchor="W")
    ticks = [*(row + 0.5 for row in range(rows)), rows + 0.9]
    axes.set_yticks(ticks, [*audit.by_reader, "together"])
    step = 1 if len(samples) <= 16 else 5
    axes.set_xticks([c + 0.5 for c in range(0, len(samples), step)], samples[::step])
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)


def _cell(axes, row: float, column: int, ground: str, text) -> None:
    box = Rectangle((column, row), 1, 1, facecolor=ground, ec="white", lw=1)
    axes.add_patch(box)
    if hatch := HATCH.get(ground):
        box.set(hatch=hatch, edgecolor=INK, lw=0.4)
        return  # a number would not be read on it
    axes.text(column + 0.5, row + 0.5, str(text), ha="center", va="center", size=7.5,
              color=ink_on(ground))  # fmt: skip


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
            1, len(columns), figsize=(6.8, 0.7 + 0.34 * len(audits)), sharey=True,
            squeeze=False, layout="constrained",
        )  # fmt: skip
        for axes, title in zip(grid[0], columns, strict=True):
            for y, row in enumerate(audits.values()):
                if title in row:
                    _bar(axes, y, row[title])
            axes.set_title(title, size=8.5)
            axes.set(xlim=(0, 1), xticks=[], ylim=(len(audits) - 0.45, -0.55))
            axes.spines[["left", "bottom"]].set_visible(False)
            axes.tick_params(left=False)
        grid[0, 0].set_yticks(range(len(audits)), list(audits), size=8.5)
        patches = [
            Patch(facecolor=ground, label=LABELS[ground], ec=QUIET, lw=0.6, hatch=HATCH.get(ground))
            for ground in (NEVER, ONCE, MORE)
        ]
        figure.legend(handles=patches, loc="outside lower center", ncols=3, fontsize=8.5)
    return figure


def _bar(axes, y: int, audit) -> None:
    left = 0.0
    parts = {NEVER: audit.never, ONCE: audit.once, MORE: audit.twice + audit.more}
    for ground, number in parts.items():
        share = number / audit.total
        look = {"color": ground, "ec": QUIET, "lw": 0.6, "hatch": HATCH.get(ground)}
        axes.barh(y, share, left=left, height=0.72, **look)
        if number:
            ink = INK if ground == NEVER else ink_on(ground)
            box = {"boxstyle": "round,pad=0.15", "fc": ground, "ec": "none"}
            axes.text(left + share / 2, y, number, ha="center", va="center", size=8.5,
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
            figsize=(1.9 + CUT_CELL * longest, 0.7 + 1.25 * CUT_CELL * len(steps)),
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
        patches = [Patch(facecolor=color(rank), label=f"rank {rank}") for rank in range(ranks)]
        figure.legend(handles=patches, loc="outside lower center", ncols=4, fontsize=8.5)
    return figure


def _sample(axes, row: int, column: int, rank: int, sample: int) -> None:
    ground = color(rank)
    axes.add_patch(Rectangle((column, row), 1, 0.8, facecolor=ground, ec="white", lw=1.2))
    axes.text(column + 0.5, row + 0.4, str(sample), ha="center", va="center", size=8,
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
        figure, axes = plt.subplots(figsize=(WIDTH, 2.7), layout="constrained")
        for size, audit in audits.items():
            never = audit.never / audit.total
            axes.bar(size, 1 - never, color=ONCE, width=0.8)
            axes.bar(size, never, bottom=1 - never, color=NEVER, width=0.8, ec=QUIET, lw=0.6,
                     hatch=HATCH[NEVER])  # fmt: skip
            axes.text(size, 1.02, f"{never:.0%}", ha="center", size=8)
        marked = axes.plot(proved, [0.03] * len(proved), "D", color=INK, ms=5, clip_on=False)
        axes.set(xlabel="ranks", ylim=(0, 1.1), xticks=list(audits), yticks=[0, 0.5, 1])
        axes.set_yticklabels(["0", "half", "all"])
        axes.set_ylabel("samples of the set")
        patches = [
            Patch(facecolor=ONCE, label="seen"),
            Patch(facecolor=NEVER, label="never seen", ec=QUIET, lw=0.6, hatch=HATCH[NEVER]),
        ]
        marked[0].set_label("counted on real ranks")
        handles = patches + marked * bool(proved)
        figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8.5)
    return figure
