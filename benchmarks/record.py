"""Where a benchmark's figures go: book/results/NAME.json, with what, where, when and how."""

import argparse
import importlib.metadata
import json
import os
import statistics
import sys
from pathlib import Path

from rankbook.core.results import Result, machine

RESULTS = Path(__file__).parent.parent / "book" / "results"
LIBRARIES = ("torch", "ipykernel", "jupyter_client")


def check_repeats(parser: argparse.ArgumentParser, repeats: int) -> None:
    """End the program with one sentence if `repeats` are too few for a median and a spread."""
    if repeats < 3:
        parser.error(f"--repeats {repeats} gives no median and spread; use 3 or more")


def summary(seconds: list[float], unit: float = 1000.0) -> dict:
    """Median and spread of repeated times, in milliseconds unless `unit` (a factor) says else."""
    ordered = sorted(s * unit for s in seconds)
    tenth = len(ordered) // 10
    return {
        "repeats": len(ordered),
        "median": round(statistics.median(ordered), 3),
        "p10": round(ordered[tenth], 3),
        "p90": round(ordered[-1 - tenth], 3),
    }


def load_average() -> float:
    """What else the machine does: ask before anything is measured."""
    return round(os.getloadavg()[0], 1)


def recorded(name: str) -> dict:
    """What the result file of that name says; nothing without one."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def write(
    name: str, what: str, rows: list[dict], libraries=LIBRARIES, command: str = "", **more
) -> Path:
    """Write a result file; `rows` are its table, one factor changed from row to row.

    command: what repeats it, if not this very call.
    """
    import torch  # slow: here, so that a program's --help need not wait for it

    command = command or " ".join(["python", "-m", program(Path(sys.argv[0])), *sys.argv[1:]])
    versions = {name: importlib.metadata.version(name) for name in libraries}
    RESULTS.mkdir(exist_ok=True)
    where = machine(torch.device("cpu")) if more.get("kind") == "CPU" else machine()
    result = Result(what, rows, command, versions, where, more=more)
    return result.write(RESULTS / f"{name}.json")


def program(file: Path) -> str:
    """What ``python -m`` calls `file`, a module in the folder of the benchmarks or below it."""
    folders = file.resolve().parent.parts
    below = folders[folders.index("benchmarks") + 1 :] if "benchmarks" in folders else ()
    return ".".join(["benchmarks", *below, file.stem])
