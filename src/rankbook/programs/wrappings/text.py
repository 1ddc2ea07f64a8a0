"""What wrappings found, as lines for the terminal."""

from collections.abc import Iterable, Mapping

SHORT = {"right": "right", "SILENTLY WRONG": "WRONG", "raises": "raises", "cannot run": "-"}


def tables(report: Mapping) -> str:
    """A table for each number of microbatches, and below what was raised."""
    rows = report["rows"]
    parts = [f"torch {report['torch']}, {report['where']}. A percentage: error of the gradient."]
    for count in dict.fromkeys(row["microbatches"] for row in rows):
        parts += [f"{count} microbatches", _table(r for r in rows if r["microbatches"] == count)]
    for row in rows:
        if row["message"] and (line := f"{SHORT[row['verdict']]}  {row['message']}") not in parts:
            parts.append(line)
    return "\n\n".join(parts)


def cell(row: Mapping) -> str:
    """The verdict in a few words, with the largest error where one is wrong."""
    worst = max(row["errors"], default=0.0)
    off = f" {worst:.0%}" if worst > 1e-3 else ""
    step = f" in step {row['step']}" if row["verdict"] == "raises" else ""
    return SHORT[row["verdict"]] + off + step


def _table(rows: Iterable[Mapping]) -> str:
    """One line a wrapping, one column a schedule."""
    cells = {(row["wrapping"], row["schedule"]): cell(row) for row in rows}
    wrappings, schedules = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    lines = [["", *schedules]]
    lines += [[w, *(cells.get((w, s), "") for s in schedules)] for w in wrappings]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
