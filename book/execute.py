"""Execute chapters, two at a time: each holds ranks of its own, and two cores are the least.

What the kernels and their ranks write besides their cells' outputs goes to ``_build/logs``: a
chapter that shows how a process dies is no failing build.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import nbformat
from executed import expected_seconds, keep
from fingerprint import OUT
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal

AT_A_TIME = 2
LOGS = OUT / "logs"


class Done(NamedTuple):
    """A chapter that has come to its end: how long it took, and what failed, if anything did."""

    chapter: Path
    seconds: float
    failure: str


def execute(wanted: Iterable[tuple[Path, str]], timeout: int) -> Iterator[Done]:
    """Execute and keep the chapters; yield each as it ends. One that fails stops no other.

    wanted: notebooks, each with its execution key. timeout: seconds a cell. The longest begin
    first, so that none is left over at the end with one core idle.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    order = sorted(wanted, key=lambda one: -expected_seconds(one[0]))
    with ProcessPoolExecutor(AT_A_TIME) as pool:
        running = [pool.submit(execute_one, *one, timeout) for one in order]
        for future in as_completed(running):
            yield future.result()


def execute_one(chapter: Path, key: str, timeout: int) -> Done:
    """Execute and keep one chapter, in a process of its own: its streams become the log."""
    with (LOGS / f"{chapter.parent.name}-{chapter.stem}.log").open("wb") as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(log.fileno(), stream.fileno())
    notebook = nbformat.read(chapter, as_version=nbformat.NO_CONVERT)
    begun: list[str] = []
    client = NotebookClient(
        notebook,
        timeout=timeout,
        resources={"metadata": {"path": str(chapter.parent)}},
        on_cell_execute=lambda cell, cell_index: begun.append(cell.id),
    )
    began, failure = time.monotonic(), ""
    try:
        client.execute()
    except (CellControlSignal, RuntimeError) as error:  # of a cell; of a kernel that died
        failure = f"in cell {begun[-1]!r}:\n\n{error}" if begun else f"to start: {error}"
    seconds = time.monotonic() - began
    if failure:
        failure += f"\n\nWhat its processes wrote is in {log.name}"
    elif not keep(chapter, key, notebook, seconds):
        failure = "to be kept: what it depends on changed while it ran; build again"
    return Done(chapter, seconds, failure)
