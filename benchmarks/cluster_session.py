"""Record what the cluster chapter's cells say on a real cluster, for machines without one.

python -m benchmarks.cluster_session
"""

import argparse
import sys
from datetime import datetime
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from benchmarks import record
from rankbook.magics.cluster import cell_name
from rankbook.testbed.slurm import why_not

NAME = "cluster-session"
CHAPTER = record.RESULTS.parents[1] / "chapters" / "en" / "51_notebook_to_cluster.ipynb"
LONGEST_CELL = 240  # seconds


def scripts(notebook) -> dict[str, str]:
    """The script of every ``%%cluster`` cell of a notebook, by the cell's NAME.

    Raises ValueError if two cells have one name.
    """
    found = {}
    for cell in _cells(notebook):
        line, _, script = cell.source.partition("\n")
        name = cell_name(line.removeprefix("%%cluster"))
        if name in found:
            raise ValueError(f"two cells are called {name!r}: %%cluster needs a name of its own")
        found[name] = script
    return found


def outputs(notebook) -> list[str]:
    """What each ``%%cluster`` cell of an executed notebook printed; pictures are left out."""
    return ["".join(map(_text, cell.outputs)).rstrip() for cell in _cells(notebook)]


def seconds(notebook) -> list[float]:
    """How long each ``%%cluster`` cell of an executed notebook took."""
    spans = [cell.metadata["execution"] for cell in _cells(notebook)]
    ends = ("iopub.execute_input", "shell.execute_reply")
    times = [[datetime.fromisoformat(span[end]) for end in ends] for span in spans]
    return [round((end - start).total_seconds(), 1) for start, end in times]


def main() -> None:
    """Execute the chapter and write book/results/cluster-session.json."""
    parser = argparse.ArgumentParser(description="Record the cells of the cluster chapter.")
    parser.parse_args()
    if reason := why_not():
        parser.error(f"nothing to record: no cluster on this machine: {reason}")
    notebook = nbformat.read(CHAPTER, as_version=4)
    code = scripts(notebook)  # before anything runs, as it may find a mistake
    where = {"metadata": {"path": str(CHAPTER.parent)}}
    client = NotebookClient(notebook, timeout=LONGEST_CELL, kernel_name="python3", resources=where)
    client.execute()
    said, took = outputs(notebook), seconds(notebook)
    print(write(code, said, took, _slurm(notebook)), file=sys.stderr)


def write(code: dict[str, str], said: list[str], took: list[float], slurm: str) -> Path:
    """The result file of cells with these scripts (by name), outputs and seconds."""
    what = "What each cell of the cluster chapter said on two nodes of a real Slurm"
    both = zip(code.items(), said, strict=True)
    cells = {name: {"script": script, "output": output} for (name, script), output in both}
    rows = [{"cell": name, "seconds": each} for name, each in zip(code, took, strict=True)]
    return record.write(NAME, what, rows, libraries=("torch",), slurm=slurm, cells=cells)


def _cells(notebook) -> list:
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [cell for cell in code if cell.source.startswith("%%cluster")]


def _text(output) -> str:
    if output.output_type == "stream":
        return output.text if output.name == "stdout" else ""
    data = output.get("data", {})
    picture = any(kind.startswith("image/") for kind in data)
    return "" if picture else data.get("text/plain", "") + "\n"


def _slurm(notebook) -> str:
    """The words "Slurm 22.05.8", from what ``%cluster start`` printed."""
    start = next(c for c in notebook.cells if "%cluster start" in c.source.splitlines())
    said = "".join(map(_text, start.outputs))
    return " ".join(said[said.index("Slurm ") :].split()[:2])


if __name__ == "__main__":
    main()
