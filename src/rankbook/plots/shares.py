"""Which reader read which sample: once, twice, never."""

from collections import Counter
from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from rankbook.plots.style import INK, color, ink_on, style

GROUND = "#f1f3f5"  # of samples that a reader did not read
ONCE, MORE, NEVER = color(2), color(1), "white"
HATCH = "////"  # of a sample that nobody read: it differs without colours, too
LABELS = {ONCE: "once", MORE: "twice or more", NEVER: "never"}
CELL, WIDTH = 0.21, 6.4  # inches: of a cell where there is room, and of the widest figure
BEHIND = 4  # cells: room for the words behind a row
MOST = 60  # samples: more would not be seen on a page


def shares(seen) -> Figure:
    """Draw what each reader read: a column a sample, a row a reader, and below them all together.

    seen: a `rankbook.data.Seen`, or several by title, which are drawn below each other. The bottom
    row says how often a sample was read. A number in a reader's cell says how often it read that
    sample, if not once; "+2 others" behind a row, that it read two things that are not in the set.
    Raises ValueError without an audit, and for more than 60 samples.
    """
    by_title = seen if isinstance(seen, Mapping) else {"": seen}
    if not by_title:
        raise ValueError("shares: no audit; give it what seen or gather_seen returned")
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
            Patch(facecolor=ground, label=label, ec=INK, lw=0.4, hatch=_hatch(ground))
            for ground, label in LABELS.items()
        ]
        figure.legend(handles=patches, loc="outside lower left", ncols=3, fontsize=8.5)
    return figure


def _counts(audit) -> str:
    found = Counter(audit.times.values())
    more = sum(found.values()) - found[0] - found[1] - found[2]
    parts = [f"{found[1]} once", f"{found[2]} twice", f"{found[0]} never"]
    return ", ".join(parts + [f"{more} more often"] * (more > 0))


def _grid(axes, audit, columns: int) -> None:
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
    if hatch := _hatch(ground):
        box.set(hatch=hatch, edgecolor=INK, lw=0.4)
        return  # a number would not be read on it
    axes.text(column + 0.5, row + 0.5, str(text), ha="center", va="center", size=7.5,
              color=ink_on(ground))  # fmt: skip


def _ground(times: int) -> str:
    return (NEVER, ONCE)[times] if times < 2 else MORE


def _hatch(ground: str) -> str | None:
    return HATCH if ground == NEVER else None
