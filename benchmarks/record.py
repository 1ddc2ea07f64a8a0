"""Where a benchmark's figures go: book/results/NAME.json, with what, where, when and how."""

import argparse
import importlib.metadata
import statistics
import sys
from pathlib import Path

from rankbook.core.results import Result

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


def write(name: str, what: str, rows: list[dict], libraries=LIBRARIES, **more) -> Path:
    """Write a result file; `rows` are its table, one factor changed from row to row."""
    command = " ".join(["python", "-m", program(Path(sys.argv[0])), *sys.argv[1:]])
    versions = {name: importlib.metadata.version(name) for name in libraries}
    RESULTS.mkdir(exist_ok=True)
    return Result(what, rows, command, versions, more=more).write(RESULTS / f"{name}.json")


def program(file: Path) -> str:
    """What ``python -m`` calls `file`, a module in the folder of the benchmarks or below it."""
    folders = file.resolve().parent.parts
    below = folders[folders.index("benchmarks") + 1 :] if "benchmarks" in folders else ()
    return ".".join(["benchmarks", *below, file.stem])
