"""Start a function on several ranks, with a deadline: nothing hangs, nothing is left running."""

import datetime
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from tests.waiting import SOON

MODULES = [
    "torch.distributed.pipelining",
    "torch.distributed.tensor",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.algorithms.join",
    "torch.distributed.optim",
]


def run_ranks(work: Callable, folder: Path, world_size: int, *args) -> list:
    """Call `work(*args)` in a gloo group on each rank; return what each gave, by rank.

    Raises what a rank raised, as torch.multiprocessing reports it. What is not done after
    `SOON` hangs: the ranks are killed, and TimeoutError is raised.
    """
    mp.set_forkserver_preload(MODULES)  # imported once, not once per rank
    spec = (work, str(folder), world_size, args)
    ranks = mp.start_processes(_on_rank, spec, world_size, join=False, start_method="forkserver")
    end = time.monotonic() + SOON
    try:
        while not ranks.join(timeout=max(0.1, end - time.monotonic())):
            if time.monotonic() >= end:
                raise TimeoutError(f"{world_size} ranks were not done in {SOON:.0f} s")
    finally:
        for process in ranks.processes:
            if process.is_alive():
                process.kill()
            process.join()
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(world_size)]


def _on_rank(rank: int, work: Callable, folder: str, world_size: int, args: tuple) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=world_size,
        timeout=datetime.timedelta(seconds=SOON / 2),
    )
    torch.save(work(*args), f"{folder}/{rank}.pt")
    dist.barrier()  # a group that is left while others still connect breaks theirs
    dist.destroy_process_group()
