"""What each of the four ranks does: all trials, one after the other."""

import json
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist

from rankbook.parallel.trials import try_wrapping
from rankbook.programs.ending import end
from rankbook.programs.report import Progress

RANKS = 4


def try_all(rank: int, folder: str, trials: list[tuple[str, str, int]]) -> None:
    """Try all `trials` (schedule, wrapping, microbatches); rank 0 writes ``rows.json``."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    warnings.simplefilter("ignore")  # of wrappings that do what is asked of them
    torch.set_num_threads(1)
    where = {"init_method": f"file://{folder}/store", "rank": rank, "world_size": RANKS}
    dist.init_process_group("gloo", **where)
    progress, found = Progress(0, len(trials), silent=rank > 0), []
    for number, (schedule, wrapping, count) in enumerate(trials, 1):
        found.append(try_wrapping(schedule, wrapping, count).row(without="norms", width=100))
        progress.update(number, f"{schedule}, {wrapping}, {count} microbatches")
    if rank == 0:
        Path(folder, "rows.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()  # a group that is left while others still connect breaks theirs
    end()
