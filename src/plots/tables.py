"""Recorded measurements as a table: ``book/results/NAME-*.json``, each with its provenance."""

import html
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

FOLDER = Path("book/results")


class Table:
    """Rows under a head, shown by a notebook as a table and by ``print`` as lines."""

    def __init__(self, head: list[str], rows: Iterable[list[str]]):
        self.head, self.rows = head, [list(row) for row in rows]

    def _repr_html_(self) -> str:
        def row(tag: str, cells: list[str]) -> str:
            inside = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
            return f"<tr>{inside}</tr>"

        body = "".join(row("td", cells) for cells in self.rows)
        head = row("th", self.head)
        return f'<table class="table"><thead>{head}</thead><tbody>{body}</tbody></table>'

    def __repr__(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.head, *self.rows, strict=True)]
        lines = [self.head, *self.rows]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def recorded(name: str, start: Path | None = None) -> list[dict]:
    """The recorded results called `name`, sorted by file name.

    Looks in ``book/results`` of `start` (the current folder) and of every folder above it. None
    is found where only a notebook was downloaded.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here / FOLDER, *(parent / FOLDER for parent in here.parents)):
        if folder.is_dir():
            files = sorted(folder.glob(f"{name}-*.json"))
            return [json.loads(file.read_text("utf-8")) for file in files]
    return []


def provenance(result: Mapping) -> str:
    """Where, when and under what load a record was made: a line to print above what it shows.

    The load is the system's average of processes that want a core; a range where there were many.
    """
    load = result.get("load_average", result.get("load", "not recorded"))
    if isinstance(load, dict):
        load = f"{load['lowest']:.1f} to {load['highest']:.1f}"
    torch = f"torch {result['libraries']['torch']}"
    return ", ".join([result["where"], torch, result["when"], f"load {load}"])
