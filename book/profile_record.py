"""Build the book from nothing, and record what that took: ``book/results/make_book.json``."""

import json
import os
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from build_record import RECORD
from execute import free_bytes
from execution.client import WITH_MEMORY
from execution.leaving import below
from execution.watch import memory
from fingerprint import ROOT
from profile_book import CELLS, shares

from rankbook.core.others import others
from rankbook.core.results import Result

FRESH = "_build/fresh"  # in place of _build
LIBRARIES = ("torch", "jupyter-book", "ipykernel", "nbclient", "matplotlib")
EVERY = 1.0  # seconds between two looks at the memory


def write_record() -> int:
    """Build, then write the record; the exit status is the build's."""
    out = ROOT / FRESH
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    began, peak, least_free = time.monotonic(), 0, float("inf")
    with others() as other:
        build = subprocess.Popen(
            [sys.executable, ROOT / "book" / "build.py"],
            env={**os.environ, "RANKBOOK_BUILD": FRESH, WITH_MEMORY: "1"},
        )
        while build.poll() is None:
            # adding up takes half a second of a core: only where it may be more than ever
            if (free := free_bytes()) < least_free:
                least_free, peak = free, max(peak, sum(map(memory, below())))
            time.sleep(EVERY)
    minutes = (time.monotonic() - began) / 60
    rows = [row(path) for path in sorted((out / "profile").glob("*.json"))]
    whole = {
        "minutes": round(minutes, 1),
        "CPU minutes": round(sum(r["CPU seconds"] for r in rows) / 60, 1),
        "peak GB": round(peak / 1e9, 2),
        "disk GB": round(size(out) / 1e9, 2),
        "taken by others": f"{other.share:.0%}",
    }
    print(
        "\n".join(
            f"{r['page']:24} {r['CPU seconds']:5.0f} CPU-s {r['seconds']:5.0f} s "
            f"{r['peak GB']:.1f} GB"
            for r in sorted(rows, key=lambda r: -r["CPU seconds"])
        )
    )
    print(whole)
    if build.returncode == 0:
        libraries = {name: version(name) for name in LIBRARIES}
        more = {"processor": processor(), "whole": whole}
        what = "What make book takes from nothing, and each chapter of it"
        Result(what, rows, "make profile-book", libraries, more=more).write(RECORD)
        # what was executed may serve the next make book as well
        shutil.copytree(out / "executions", ROOT / "_build" / "executions", dirs_exist_ok=True)
        shutil.rmtree(out)
    return build.returncode


def row(path: Path) -> dict:
    """A chapter's row, from what its execution left."""
    facts = json.loads(path.read_text("utf-8"))
    return {
        "page": path.stem,
        "CPU seconds": round(facts["cpu"], 1),
        "seconds": round(facts["seconds"], 1),
        "peak GB": round(facts["peak_bytes"] / 1e9, 2),
        "processes": shares(facts["by_process"], 3),
        "cells": shares(facts["by_cell"], CELLS),
    }


def size(folder: Path) -> int:
    """Bytes of all files below `folder`."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def processor() -> str:
    """What the system calls this machine's processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    found = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(found, "unknown processor")
