"""Run ``originals.ipynb`` in the kernel of ``make legacy``; keep what its cells give.

Usage: ``make legacy``. Writes ``book/results/legacy-kernel.json``: the source and the output of
each cell, the functions of ``ddp_pipe.py``, the ids of torchtext, the losses of ``DDP(Pipe)``, and
with what, where and when they were made.
The tests hold the book's own ids and pipelines against them, the page of the first tutorial shows
them.
"""

import ast
import os
import sys
import time
from pathlib import Path

import nbformat
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv-legacy"
NOTEBOOK = Path(__file__).with_name("originals.ipynb")
PROGRAM = Path(__file__).with_name("ddp_pipe.py")
WHAT = (
    "What the originals' own torchtext and `DDP(Pipe)` gave (`book/legacy/originals.ipynb`); in "
    "the table, one training step with 20 x 35 tokens a replica, width 64, all 28,782 words"
)
sys.path.insert(0, str(ROOT))

from benchmarks.record import RESULTS, summary  # noqa: E402 - the path comes first
from rankbook.core.results import Result  # noqa: E402
from rankbook.data.sources import SHA256, Absent, local_files  # noqa: E402


def main() -> int:
    """Run, write, and say what was written; 1 without WikiText-2."""
    try:
        local_files("wikitext-2")
    except (Absent, FileNotFoundError, ValueError) as reason:
        print(
            f"make legacy: the real WikiText-2 is needed, and {reason}; "
            "run it with RANKBOOK_DATA=FOLDER, the folder that holds wikitext-2"
        )
        return 1
    load = round(os.getloadavg()[0], 1)  # what else the machine did
    start = time.monotonic()
    cells, facts = run()
    result = Result(
        WHAT,
        [{"system": "DDP(Pipe)", "replicas": 2, "unit": "ms"} | summary(step_seconds(facts))],
        command="make legacy",
        libraries=facts["libraries"],
        python=facts["python"],
        more={
            "load": load,
            "installation": installation(),
            "notebook_seconds": round(time.monotonic() - start),
            "sources": {n: sha for n, sha in SHA256.items() if n.startswith("wikitext-2/")},
            "cells": cells,
            "program": program(),
            **{name: facts[name] for name in ("text", "proof", "run")},
        },
    )
    path = result.write(RESULTS / "legacy-kernel.json")
    print(f"Wrote {path.relative_to(ROOT)} in {result.more['notebook_seconds']} s")
    return 0


def run() -> tuple[dict[str, dict], dict]:
    """Execute the notebook; the code cells by id, and the facts that the last of them displays.

    A cell that raises ends it with nbclient's CellExecutionError, which shows cell and traceback.
    """
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    if "RANKBOOK_DATA" in os.environ:  # the notebook runs in its own folder
        os.environ["RANKBOOK_DATA"] = str(Path(os.environ["RANKBOOK_DATA"]).resolve())
    os.chdir(NOTEBOOK.parent)
    kernel = AsyncKernelManager(kernel_name="rankbook-legacy", transport="ipc")  # no ports
    NotebookClient(notebook, km=kernel, timeout=3600).execute(cleanup_kc=True)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    (facts,) = (
        output.data["application/json"]
        for output in code[-1].outputs
        if output.output_type == "display_data"
    )
    return {cell.id: {"source": cell.source, "output": printed(cell)} for cell in code[:-1]}, facts


def printed(cell) -> str:
    """What the cell printed; warnings go to stderr, name folders of this machine, and stay here."""
    streams = (output for output in cell.outputs if output.output_type == "stream")
    return "".join(stream.text for stream in streams if stream.name == "stdout").rstrip()


def program() -> dict[str, dict]:
    """The functions of ``ddp_pipe.py``, by name, in the form of cells that printed nothing."""
    text = PROGRAM.read_text("utf-8")
    functions = [part for part in ast.parse(text).body if isinstance(part, ast.FunctionDef)]
    lines, cells = text.splitlines(), {}
    for part in functions:
        first = min(line.lineno for line in (part, *part.decorator_list))
        source = "\n".join(lines[first - 1 : part.end_lineno])
        cells[part.name] = {"source": source, "output": ""}
    return cells


def step_seconds(facts: dict) -> list[float]:
    """The time of each training step, taken out of the facts: all replicas, all epochs."""
    epochs = [epoch for gave in facts["run"]["replicas"] for epoch in gave["epochs"]]
    return [second for epoch in epochs for second in epoch.pop("seconds")]


def installation() -> dict:
    """What it cost to make the environment: seconds, as the Makefile wrote them, and size."""
    blocks = (path.lstat().st_blocks for path in VENV.rglob("*"))
    return {
        "seconds": int((VENV / ".ready").read_text()),
        "gigabytes": round(sum(blocks) * 512 / 1e9, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
