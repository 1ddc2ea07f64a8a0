"""Time the library's all_reduce against message size: the line that the cost model starts from.

python -m benchmarks.all_reduce --ranks 2

Writes book/results/all_reduce-KIND-RANKS.json. Uses a GPU a rank and nccl where there are enough
GPUs, the CPU and gloo otherwise. Nothing else should run on the machine meanwhile.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from benchmarks.record import summary, write
from rankbook.parallel import fit_alpha_beta, place, time_all_reduce

SIZES = [2**k for k in range(3, 25)]  # 8 B to 16 MiB
WHAT = "all_reduce of float32: microseconds until the slowest rank is done, against message size"


def main() -> None:
    """Measure, print one line a size, and write the result."""
    parser = argparse.ArgumentParser(description="Time all_reduce against message size.")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=50)
    options = parser.parse_args()
    if options.ranks < 2:
        parser.error("--ranks: an all_reduce needs at least 2")
    load = round(os.getloadavg()[0], 1)  # what else the machine did
    with tempfile.TemporaryDirectory() as folder:
        seconds = on_ranks(options.ranks, folder, measure, options.repeats)
    alpha, beta = fit_alpha_beta(torch.tensor(SIZES), seconds.median(dim=1).values)
    rows = [
        {"bytes": size} | summary(times.tolist(), unit=1e6)
        for size, times in zip(SIZES, seconds, strict=True)
    ]
    placement = place(0, options.ranks)
    kind = {"cpu": "CPU", "cuda": "GPU"}[placement.device.type]
    about = {"kind": kind, "backend": placement.backend, "ranks": options.ranks, "load": load}
    about["fit"] = {"alpha_seconds": alpha, "beta_seconds_per_byte": beta}
    name = f"all_reduce-{kind.lower()}-{options.ranks}"
    write(name, WHAT, rows, libraries=("torch",), **about)
    for row in rows:
        print("{bytes:>10,} B {median:>9.0f} µs ({p10:.0f} to {p90:.0f})".format(**row))
    print(f"alpha = {alpha * 1e6:.0f} µs, beta = {beta * 1e9:.3f} s/GB")


def on_ranks(world_size: int, folder: str, work: Callable, *args: Any) -> Any:
    """Call ``work(*args, device)`` on that many ranks of a new group; give what rank 0's gave.

    folder: where the ranks meet. work: a function of a module; it returns tensors, in lists or
    dicts.
    """
    mp.set_forkserver_preload(["torch.distributed"])  # imported once, not once a rank
    with tempfile.TemporaryDirectory(dir=folder) as meeting:
        spec = (world_size, meeting, work, args)
        mp.start_processes(_on_rank, spec, nprocs=world_size, start_method="forkserver")
        return torch.load(f"{meeting}/result", weights_only=True)


def _on_rank(rank: int, world_size: int, folder: str, work: Callable, args: tuple) -> None:
    torch.set_num_threads(1)
    placement = place(rank, world_size)
    if placement.device.type == "cuda":
        torch.cuda.set_device(placement.device)
    else:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    where = {"init_method": f"file://{folder}/store", "rank": rank, "world_size": world_size}
    dist.init_process_group(placement.backend, **where)
    result = work(*args, placement.device)
    if rank == 0:
        torch.save(result, f"{folder}/result")
    dist.barrier()
    dist.destroy_process_group()


def measure(repeats: int, device: torch.device) -> torch.Tensor:
    """One rank: time all sizes, float32 [sizes, repeats]."""
    return time_all_reduce(SIZES, repeats, device)


if __name__ == "__main__":
    main()
