"""Which wrappings are right in which pipelines, as they were measured."""

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from textwrap import shorten

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from plots.marks import word_lines
from plots.tables import Table
from plots.theme import BAD, COLORS, GOOD, INK, LINE, PAPER, QUIET, WIDTH, ink_on, style

# from light to dark also in grey; the words tell them apart without any of it
GROUND = {
    "right": to_rgba(GOOD, 0.25),
    "cannot run": to_rgba(PAPER),
    "raises": to_rgba(COLORS[1]),
    "SILENTLY WRONG": to_rgba(BAD),
}
ON_GROUND = {"raises": ink_on(COLORS[1]), "SILENTLY WRONG": ink_on(BAD)}
VISIBLE = 1e-3  # a smaller error of the gradient is not worth a percentage
ALIKE = 0.01  # an error that differs by less between two versions of torch has not changed
MOST = 4  # schedules beside each other; the others stand below
ROW = 0.58  # inches: three lines of words
BROKEN = {"interleaved1f1b": "interleaved\n1f1b", "interleavedzb": "interleaved\nzb"}


def wrapping_table(outcomes: Iterable) -> Figure:
    """Draw one row a wrapping, one column a schedule, in the order in which they come.

    outcomes: `rankbook.parallel.trials.try_wrapping`'s, or mappings of the same fields. A cell is
    cut where its verdict depends on the number of microbatches, which is named then. A percentage
    is the error of the gradient, of its norm, in the worst step. Trials that were not made stay
    empty. Raises ValueError without outcomes.
    """
    found = [outcome if isinstance(outcome, Mapping) else vars(outcome) for outcome in outcomes]
    if not found:
        raise ValueError("wrapping_table: no outcomes; give it what try_wrapping returned")
    schedules, wrappings = (
        list(dict.fromkeys(outcome[key] for outcome in found)) for key in ("schedule", "wrapping")
    )
    blocks = [schedules[i : i + MOST] for i in range(0, len(schedules), MOST)]
    height = len(blocks) * (ROW * len(wrappings) + 0.45)
    with style():
        figure, panels = plt.subplots(
            len(blocks), figsize=(WIDTH, height), squeeze=False, layout="constrained"
        )
        for axes, block in zip(panels[:, 0], blocks, strict=True):
            _name(axes, block, wrappings)
            for y, wrapping in enumerate(wrappings):
                for x, schedule in enumerate(block):
                    asked = {"schedule": schedule, "wrapping": wrapping}
                    _cell(axes, x, y, [o for o in found if asked.items() <= o.items()])
    return figure


def _name(axes: Axes, schedules: list[str], wrappings: list[str]) -> None:
    """The names of columns and rows, broken where they would need too much room."""
    axes.set(xlim=(0, len(schedules)), ylim=(len(wrappings), 0))
    names = [BROKEN.get(name, name) for name in schedules]
    axes.set_xticks([i + 0.5 for i in range(len(schedules))], names)
    axes.set_yticks([])
    for y, name in enumerate(wrappings):
        broken = re.sub(r" (?=each|after|find|static)", "\n", name)
        word_lines(axes, (-0.06, y + 0.5), broken, ha="right", color=QUIET)
    axes.tick_params(length=0)
    axes.xaxis.tick_top()
    axes.spines[:].set_visible(False)


def _cell(axes: Axes, x: int, y: int, outcomes: list[Mapping]) -> None:
    """One box for each verdict, as high as it has numbers of microbatches."""
    parts = [list(group) for _, group in groupby(outcomes, key=_kind)]
    top = y + 0.04
    for part in parts:
        height, verdict = 0.92 * len(part) / len(outcomes), part[0]["verdict"]
        edge = {"edgecolor": LINE if verdict == "cannot run" else PAPER, "lw": 0.8}
        box = plt.Rectangle((x + 0.02, top), 0.96, height, facecolor=GROUND[verdict], **edge)
        axes.add_patch(box)
        counts = ", ".join(str(outcome["microbatches"]) for outcome in part)
        words = f"{counts}: {_short(part)}" if len(parts) > 1 else _long(part)
        center = {"ha": "center", "color": ON_GROUND.get(verdict, INK)}
        word_lines(axes, (x + 0.5, top + height / 2), words, **center)
        top += height


def _kind(outcome: Mapping) -> tuple[str, bool, int]:
    return outcome["verdict"], _worst(outcome) > VISIBLE, outcome["missing"]


def _worst(outcome: Mapping) -> float:
    return max(outcome["errors"], default=0.0)


def _percent(outcomes: Iterable[Mapping]) -> str:
    """The errors of several numbers of microbatches: "47%", or "45-56%"; "" for none."""
    found = sorted(_worst(outcome) for outcome in outcomes)
    low, high = f"{found[0]:.0%}", f"{found[-1]:.0%}"
    if found[-1] <= VISIBLE:
        return ""
    return low if low == high else f"{low[:-1]}–{high}"


def _long(outcomes: list[Mapping]) -> str:
    """What a whole cell says."""
    verdict, wrong, missing = _kind(outcomes[0])
    if verdict == "raises":
        step = outcomes[0]["step"]
        return f"{_percent(outcomes)} off,\nthen raises" if wrong else f"raises\nin step {step}"
    if verdict != "SILENTLY WRONG":
        return verdict
    return f"WRONG\n{_percent(outcomes)}" + f"\n{missing} missing" * bool(missing)


def _short(outcomes: list[Mapping]) -> str:
    """What a part of a cell says, after its numbers of microbatches; one number has one line."""
    verdict, wrong, _ = _kind(outcomes[0])
    if verdict == "raises":
        return "off, raises" if wrong else "raises"
    space = "\n" if len(outcomes) > 1 else " "
    return f"WRONG{space}{_percent(outcomes)}" if verdict == "SILENTLY WRONG" else verdict


def wrapping_changes(results: Iterable[Mapping]) -> Table:
    """The trials that did not come out the same with every version of torch, from old to new.

    results: `recorded("wrappings")`. Errors of the gradient that differ by less than a hundredth
    are the same. Trials that changed alike share a row. Without a difference, a row that says so;
    with one result, too.
    """
    by_version = {r["libraries"]["torch"].partition("+")[0]: r["rows"] for r in results}
    versions = sorted(by_version, key=lambda name: [int(n) for n in re.findall(r"\d+", name)])
    tried = {version: {_trial(row): row for row in by_version[version]} for version in versions}
    rows = []
    for trial in dict.fromkeys(trial for version in versions for trial in tried[version]):
        found = [tried[version].get(trial) for version in versions]
        if any(_differ(found[0], other) for other in found[1:]):
            schedule, wrapping, count = trial
            alike = len({row and (row["verdict"], row["step"]) for row in found}) == 1
            said = [_said(row, alike) for row in found]
            rows.append([wrapping, schedule, f"{count}", *said])
    if not rows:
        nothing = "the same with " + ", ".join(versions) if versions else "not measured yet"
        return Table(["torch"], [[nothing]])
    for column in (2, 1, 0):
        rows = _joined(rows, column)
    head = ["wrapping", "schedule", "microbatches", *(f"torch {v}" for v in versions)]
    return Table(*_alike_once(head, rows))


def _alike_once(head: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Neighbouring versions with the same cells as one column, named by the first and the last."""
    columns = [(name, [row[i] for row in rows]) for i, name in enumerate(head)]
    kept = []
    for _, same in groupby(columns, key=lambda column: column[1]):
        names, cells = zip(*same, strict=True)
        last = names[-1].removeprefix("torch ")
        kept.append((names[0] if len(names) == 1 else f"{names[0]} to {last}", cells[0]))
    return [name for name, _ in kept], [
        list(row) for row in zip(*(c for _, c in kept), strict=True)
    ]


def _joined(rows: list[list[str]], column: int) -> list[list[str]]:
    """Rows that differ in this column only as one row, with all that they have there."""
    together = {}
    for row in rows:
        together.setdefault((*row[:column], *row[column + 1 :]), []).append(row[column])
    return [
        [*rest[:column], ", ".join(values), *rest[column:]] for rest, values in together.items()
    ]


def _trial(row: Mapping) -> tuple[str, str, int]:
    return row["schedule"], row["wrapping"], row["microbatches"]


def _differ(one: Mapping | None, other: Mapping | None) -> bool:
    if one is None or other is None:
        return one is not other
    same = all(one[key] == other[key] for key in ("verdict", "missing", "step"))
    kinds = [row["message"].partition(":")[0] for row in (one, other)]
    if not same or kinds[0] != kinds[1] or len(one["errors"]) != len(other["errors"]):
        return True
    pairs = zip(one["errors"], other["errors"], strict=True)
    return any(abs(a - b) > ALIKE for a, b in pairs)


def _said(row: Mapping | None, alike: bool) -> str:
    """A cell of the table of changes: the verdict; where all are `alike`, what differs then."""
    if row is None:
        return "not tried"
    parts = [row["verdict"] + (f" in step {row['step']}" if row["step"] else "")]
    if alike and _worst(row) > VISIBLE:
        parts.append(", ".join(f"{e:.0%}" for e in row["errors"]))
    if alike and row["message"]:
        parts.append(shorten(row["message"], 48, placeholder=" …"))
    return "; ".join(parts)
