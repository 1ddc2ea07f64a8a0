"""Where a benchmark's figures go: book/results/NAME.json, with what, where, when and how."""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import sys
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "book" / "results"
LIBRARIES = ("torch", "ipykernel", "jupyter_client")


def machine() -> str:
    """This machine in words that name no host: "2 CPU cores", "1 x NVIDIA H200"."""
    import torch

    if torch.cuda.is_available():
        return f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}"
    return f"{len(os.sched_getaffinity(0))} CPU cores, {platform.machine()}"


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
    result = {
        "what": what,
        "where": machine(),
        "python": platform.python_version(),
        "libraries": {n: importlib.metadata.version(n) for n in libraries},
        "when": datetime.date.today().isoformat(),
        "command": " ".join(
            ["python", "-m", f"benchmarks.{Path(sys.argv[0]).stem}", *sys.argv[1:]]
        ),
        **more,
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return path
