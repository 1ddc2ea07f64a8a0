"""Write benchmarks/README.md from book/results: every figure on it comes from a result file.

    python -m benchmarks.readme

Also the table of the rivals into the READMEs of the magics.
"""

import json
from pathlib import Path

from benchmarks import rival_table
from benchmarks.record import RESULTS

README = Path(__file__).parent / "README.md"
PACKAGE = Path(__file__).parent.parent / "src" / "rankbook"
MAGICS = {"en": PACKAGE / "README.md", "zh": PACKAGE / "README.zh.md"}
HEAD = """# Benchmarks

Each program here measures one thing and writes a file in `book/results`, with what, where, when and
how. This page is made from those files by `python -m benchmarks.readme`. Times are medians with the
10th and the 90th percentile; what is compared was timed in turn, in one run. Run them from the
repository's root with nothing else on the machine.

`rivals` and `live` install what they compare with into environments of their own.
"""
NOT_YET = "\nOn a GPU: not measured yet.\n"
HIDDEN = ("p10", "p90")


def text() -> str:
    """The whole page."""
    files = sorted(RESULTS.glob("*.json"))
    results = [(f.stem, json.loads(f.read_text("utf-8"))) for f in files if f.stem != "chapters"]
    page = HEAD + "".join(_section(name, result) for name, result in results)
    gpu = any("CPU" not in result["where"] for _, result in results)
    return page if gpu else page + NOT_YET


def magics(language: str) -> str:
    """The README of the magics in that language, with the table of the rivals."""
    result = json.loads((RESULTS / "rivals.json").read_text("utf-8"))
    return rival_table.fill(MAGICS[language].read_text("utf-8"), result, language)


def _section(name: str, result: dict) -> str:
    libraries = ", ".join(f"{n} {version}" for n, version in result["libraries"].items())
    where = f"{result['where']}, Python {result['python']}, {libraries}; {result['when']}"
    load = result.get("load_average", result.get("load"))
    load = f"{load['lowest']:.1f} to {load['highest']:.1f}" if isinstance(load, dict) else load
    return (
        f"\n## {name}\n\n{result['what']}.\n\n{where}. `{result['command']}`"
        + (f". Load average of the machine: {load}" if load is not None else "")
        + f".\n\n{_table(_side_by_side(result['rows'], result.get('side_by_side')))}\n"
    )


def _side_by_side(rows: list[dict], key: str | None) -> list[dict]:
    """One row for those that differ in `key` and in what was measured: a column for each value."""
    if key is None:
        return rows
    places = {}
    for row in rows:
        names = list(row)
        place = {name: row[name] for name in [*names[: names.index(key)], "repeats"]}
        wide = places.setdefault(tuple(place.values()), place)
        wide[row[key]] = _cell(row, "median")
    return list(places.values())


def _table(rows: list[dict]) -> str:
    columns = [c for c in dict.fromkeys(key for row in rows for key in row) if c not in HIDDEN]
    lines = [columns, ["---"] * len(columns)]
    lines += [[_cell(row, column) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(row: dict, column: str) -> str:
    if column == "median" and "median" in row:
        return f"**{row['median']:g}** ({row['p10']:g} to {row['p90']:g})"
    return str(row.get(column, ""))


if __name__ == "__main__":
    README.write_text(text(), encoding="utf-8")
    for language, page in MAGICS.items():
        page.write_text(magics(language), encoding="utf-8")
