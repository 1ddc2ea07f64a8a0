"""Record what the pages' ``%%cluster`` cells say on a real cluster, for machines without one.

python -m benchmarks.cluster_session            # every page that has such cells
python -m benchmarks.cluster_session 51_slurm
"""

import argparse
import sys
from datetime import datetime
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from benchmarks import record
from rankbook.magics.cluster import cell_name
from rankbook.testbed.recorded_cells import NAME
from rankbook.testbed.slurm import why_not

CHAPTERS = record.RESULTS.parents[1] / "chapters" / "en"
LONGEST_CELL = 240  # seconds


def pages() -> list[Path]:
    """The English pages that have ``%%cluster`` cells."""
    every = sorted(CHAPTERS.glob("*.ipynb"))
    return [path for path in every if "%%cluster" in path.read_text("utf-8")]


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
    """Execute the pages and write book/results/cluster_session-PAGE.json for each."""
    known = {path.stem: path for path in pages()}
    parser = argparse.ArgumentParser(description="Record the %%cluster cells of pages.")
    parser.add_argument(
        "page", nargs="*", help=f"of {', '.join(known)}; all of them if none is said"
    )
    named = parser.parse_args().page or list(known)
    if unknown := [name for name in named if name not in known]:
        parser.error(f"no page {unknown[0]} with %%cluster cells; there are {', '.join(known)}")
    if reason := why_not():
        parser.error(f"nothing to record: no cluster on this machine: {reason}")
    for name in named:
        print(record_page(known[name]), file=sys.stderr)


def record_page(path: Path) -> Path:
    """Execute the page and write its result file; the file's path."""
    notebook = nbformat.read(path, as_version=4)
    code = scripts(notebook)  # before anything runs, as it may find a mistake
    where = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=LONGEST_CELL, kernel_name="python3", resources=where)
    client.execute()
    return write(path.stem, code, outputs(notebook), seconds(notebook), _slurm(notebook))


def write(page: str, code: dict[str, str], said: list[str], took: list[float], slurm: str) -> Path:
    """The result file of a page's cells with these scripts (by name), outputs and seconds."""
    what = f"What each cell of page {page} said on two nodes of a real Slurm"
    both = zip(code.items(), said, strict=True)
    cells = {name: {"script": script, "output": output} for (name, script), output in both}
    rows = [{"cell": name, "seconds": each} for name, each in zip(code, took, strict=True)]
    return record.write(
        f"{NAME}-{page}", what, rows, libraries=("torch",), slurm=slurm, cells=cells
    )


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
    lines = ((cell, line) for cell in notebook.cells for line in cell.source.splitlines())
    start = next(cell for cell, line in lines if line.startswith("%cluster start"))
    said = "".join(map(_text, start.outputs))
    return " ".join(said[said.index("Slurm ") :].split()[:2])


if __name__ == "__main__":
    main()
