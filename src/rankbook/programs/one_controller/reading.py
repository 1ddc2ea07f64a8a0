"""What the rows say, of a recording or of faults tried here, as lines and as tables."""

import textwrap
from collections.abc import Iterable, Mapping

from rankbook.programs.one_controller.faults import FAULTS, WAYS
from rankbook.programs.one_controller.sources import code_lines, source

COLUMNS = ("live ranks", *WAYS)
HEADS = ("live ranks", "Monarch, first", "Monarch, careful")
WIDTH, END = 76, 70  # characters: of a printed line; of either end of a long sentence
WRITTEN = {  # what a reader writes for each, but for imports and names of one line
    "Monarch, first": ("Rank.__init__", "Rank.join", "Rank.step", "First"),
    "Monarch, careful": ("Rank.__init__", "Rank.join", "Rank.step", "Watcher", "Careful",
                         "errors", "last_line", "is_victim", "is_alive"),
}  # fmt: skip


def format_row(row: Mapping) -> str:
    """What a controller said, and when it had control again; then what was printed meanwhile."""
    said = [f"[{row['way']}] after {_seconds(row):.2f} s", *row["said"]]
    said += [f"printed: {line}" for line in row["printed"]]
    parts = [textwrap.wrap(shorten(line, END), WIDTH - 4, subsequent_indent="  ") for line in said]
    return "\n    ".join(line for part in parts for line in part)


def faults_table(rows: Iterable[Mapping]) -> tuple[list[str], list[list[str]]]:
    """Head and lines: a fault a line, a way a column; "–" where a fault was not tried."""
    cells = {(row["fault"], row["way"]): _cell(row) for row in rows}
    lines = [[fault, *(cells.get((fault, way), "–") for way in COLUMNS)] for fault in FAULTS]
    return ["fault", *HEADS], lines


def costs_table(
    rows: Iterable[Mapping], lines: Mapping[str, int]
) -> tuple[list[str], list[list[str]]]:
    """Head and lines: a cost a line, a way a column; medians and, in brackets, p10 to p90.

    lines: how many lines of code each way takes.
    """
    cells = {
        (row["cost"], row["way"]): f"{row['median']:.1f} {row['unit']}"
        f" ({row['p10']:.1f}–{row['p90']:.1f})"
        for row in rows
    } | {("lines of code", way): str(count) for way, count in lines.items()}
    costs, ways = (list(dict.fromkeys(key[i] for key in cells)) for i in (0, 1))
    return ["cost", *ways], [[c, *(cells.get((c, w), "–") for w in ways)] for c in costs]


def written() -> dict[str, int]:
    """Lines of code of the programs under Monarch, without imports and measurements."""
    return {way: sum(code_lines(source(n)) for n in names) for way, names in WRITTEN.items()}


def shorten(line: str, end: int = 120) -> str:
    """The beginning and the end of a line that nobody would read to its end."""
    return line if len(line) <= 2 * end else f"{line[:end]} … {line[-end:]}"


def _cell(row: Mapping) -> str:
    """ "first, 0.98 s; a new group, 0.04 s": the cause, and what made the next step work."""
    shown = f"{row['seen']}, {_seconds(row):.2f} s; "
    if not row.get("repair"):
        repeats = row.get("repeats", 1)
        works = str(row["next"]) in ("True", f"{repeats} of {repeats}")
        return shown + ("works" if works else "next step fails")
    return shown + f"{row['repair']}, {row.get('repair, s', row.get('repaired')):.2f} s"


def _seconds(row: Mapping) -> float:
    return row.get("median", row.get("seconds"))
