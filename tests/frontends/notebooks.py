"""The notebook that every front end runs: live ranks, a launch, and a cell that may fail."""

from pathlib import Path

import nbformat

from tests.live.report import blocked, raised

LOAD, START, STOP = "%load_ext rankbook", "%ranks start -n 2", "%ranks stop"
SUM = """%%ranks
t = torch.tensor([rank + 1])
dist.all_reduce(t)
print("sum", t.item())"""
LAUNCH = """%%torchrun --nproc-per-node 2
import os
print("world of", os.environ["WORLD_SIZE"])"""
FAIL = """%%ranks
if rank == 1:
    raise ValueError("the cause")
dist.barrier()"""
AFTERWARDS = "print('not ' + 'reached')"
FAILING = [LOAD, START, SUM, LAUNCH, FAIL, AFTERWARDS]
SHOWN = ["[0-1] sum 3", "[0-1] world of 2"]
CAUSE = [raised(1, "ValueError: the cause"), blocked(0, "").strip(), "barrier(), cell line 4"]


def write(path: Path, cells: list[str]) -> Path:
    """Write `cells` as a notebook of Python's."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": kernel, "language_info": {"name": "python"}},
    )
    nbformat.write(notebook, path)
    return path
