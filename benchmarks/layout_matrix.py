"""Record what every way of putting pipeline, data and tensor parallelism together does, by layout.

python -m benchmarks.layout_matrix
python -m benchmarks.layout_matrix --layout pp=2,dp=2,tp=2

Writes book/results/layout_matrix-cpu-8.json; with --layout, the rows of these layouts in it. No
times are measured: the machine may be busy.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from benchmarks.record import recorded, write
from rankbook.parallel.trials import LAYOUT_VARIANTS, try_layout

LAYOUTS = "dp=8", "tp=8", "dp=4,tp=2", "pp=4,dp=2", "pp=2,tp=4", "pp=2,dp=2,tp=2"
RANKS = 8
NAME = "layout_matrix-cpu-8"
WHAT = (
    "Clipped gradients and their norm on eight ranks, by layout and by the way in which it is put "
    "together, beside one process's: the relative error in each of two training steps. Both steps "
    "begin with the one process's parameters"
)


def main(arguments: list[str] | None = None) -> Path:
    """Try all, or the layouts that are named, and write the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layout_matrix", description=__doc__)
    parser.add_argument("--layout", nargs="+", default=LAYOUTS, choices=LAYOUTS)
    asked = parser.parse_args(arguments).layout
    kept = recorded(NAME).get("rows", [])
    rows = [row for row in kept if row["layout"] not in asked] + _tried(list(asked))
    order = [(layout, way) for way in LAYOUT_VARIANTS for layout in LAYOUTS]
    rows.sort(key=lambda row: order.index((row["layout"], row["way"])))
    command = "python -m benchmarks.layout_matrix"  # of all
    return write(NAME, WHAT, rows, libraries=("torch",), command=command, kind="CPU")


def _tried(layouts: list[str]) -> list[dict]:
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch reads it when it is imported
    mp.set_forkserver_preload(["rankbook.parallel.trials.layout_trials"])
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(_rank, (folder, layouts), RANKS, start_method="forkserver")
        return json.loads(Path(folder, "rows.json").read_text("utf-8"))


def _rank(rank: int, folder: str, layouts: list[str]) -> None:
    torch.set_num_threads(1)
    where = {"init_method": f"file://{folder}/store", "rank": rank, "world_size": RANKS}
    dist.init_process_group("gloo", **where)
    found = [
        try_layout(layout, way).row(without="missing", width=120)
        for layout in layouts
        for way in LAYOUT_VARIANTS
    ]
    if rank == 0:
        Path(folder, "rows.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()  # a group that is left while others still connect breaks theirs
    os._exit(0)


if __name__ == "__main__":
    print(main().name)
