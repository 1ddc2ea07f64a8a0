"""What speed measured, as a result file: the whole rows, a flat table, and where it was."""

import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from benchmarks.ladder.options import Options
from rankbook.core.results import Result, machine

WHAT = (
    "Training steps of a film review classifier (size {size}, {samples} reviews a pass): "
    "recipes that differ in one switch, timed in turn in one run; seconds of a pass"
)


def record(what: str, device: torch.device, rows: list[dict], **more) -> Result:
    """A result as the files of ``book/results`` have it: `rows` is its table."""
    arguments = [Path(a).name if os.sep in a else a for a in sys.argv[1:]]  # names, not places
    return Result(
        what,
        rows,
        command=shlex.join(["python", "-m", "benchmarks.ladder", *arguments]),
        libraries={"torch": torch.__version__},
        where=machine(device),
        more={"kind": "GPU" if device.type == "cuda" else "CPU", **more},
    )


class Book:
    """The file of ``--out``, which has every row as soon as it was measured; none without one.

    `rows`, `accuracies`: what it had before, with ``--resume``; failed rows are tried again.
    """

    def __init__(self, options: Options, device: torch.device, source: str):
        self.options, self.device, self.source = options, device, source
        self.load = round(os.getloadavg()[0], 1)  # what else the machine did
        self.rows: list[dict] = []
        self.accuracies: list[dict] = []
        if options.resume and options.out and options.out.exists():
            before = json.loads(options.out.read_text("utf-8"))
            self.rows = [row for row in before["ladder"] if "error" not in row]
            self.accuracies = [row for row in before["accuracies"] if "error" not in row]

    def keep(self, rows: list[dict]) -> None:
        """Write what there is, whole or not at all."""
        self.rows = rows
        if not self.options.out:
            return
        size = self.options.size.name
        what = WHAT.format(size=size, samples=self.options.samples)
        more = {"size": size, "reviews": self.source, "load": self.load}
        more |= {"ladder": self.rows, "accuracies": self.accuracies}
        lines = [flat(row) for row in self.rows]
        record(what, self.device, lines, **more).write(self.options.out)

    def keep_accuracies(self, rows: list[dict]) -> None:
        """Likewise, once more."""
        self.accuracies = rows
        self.keep(self.rows)


def flat(row: Mapping) -> dict:
    """A row of `rankbook.speed.ladder.run` for a table: numbers and words, nothing nested."""
    changes = ", ".join(f"{name}: {old} to {new}" for name, (old, new) in row["switch"].items())
    line = {"row": row["name"], "changes": changes, "from": row["base"] or ""}
    if "seconds" not in row:
        return line | {"note": row.get("error") or f"skipped: {row['skipped']}"}
    line |= {"unit": "s", "repeats": row["repeats"]} | _rounded(row["seconds"])
    line["samples/s"] = round(row["samples_per_s"], 2)
    if row.get("times"):
        line["times"] = round(row["speed_up"], 2)
    if row.get("compile_s"):
        line["compile s"] = round(row["compile_s"], 1)
    if row.get("peak_share"):
        line["of peak"] = f"{row['peak_share']:.1%}"
    if row.get("vendor_flop_per_s"):
        line["of vendor's"] = f"{row['flop_per_s'] / row['vendor_flop_per_s']:.1%}"
    if row.get("peak_bytes"):
        line["memory"] = f"{row['peak_bytes'] / 2**30:.2f} GiB"
    return line | {"weights": row["weights"]}


def flat_ranks(row: Mapping) -> dict:
    """A row of `on_ranks` in `benchmarks.ladder.ranks`, likewise."""
    line = {"strategy": row["strategy"], "ranks": row["ranks"], "row": row["name"]}
    line |= {"unit": "s", "repeats": row["repeats"]} | _rounded(row["seconds"])
    line |= {"samples/s": round(row["samples_per_s"], 2)}
    return line | {f"{part} MiB": round(size / 2**20, 1) for part, size in row["memory"].items()}


def table(rows: Iterable[Mapping]) -> str:
    """Lines for the terminal: what `flat` gives, one row a line."""
    head = ["row", "samples/s", "times", "compile s", "of peak", "of vendor's", "memory", "note"]
    lines = [head, *([str(line.get(key, "")) for key in head] for line in map(flat, rows))]
    used = [i for i in range(len(head)) if i == 0 or any(line[i] for line in lines[1:])]
    widths = [max(len(line[i]) for line in lines) for i in used[:-1]] + [0]
    return "\n".join(
        "  ".join(line[i].ljust(width) for i, width in zip(used, widths, strict=True)).rstrip()
        for line in lines
    )


def _rounded(seconds: Mapping) -> dict:
    return {name: float(f"{seconds[name]:.4g}") for name in ("median", "p10", "p90")}
