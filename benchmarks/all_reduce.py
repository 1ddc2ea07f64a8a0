"""Time all_reduce against message size, and record it for the book.

python -m benchmarks.all_reduce --ranks 2

Writes book/results/all_reduce-KIND-RANKS.json. Uses a GPU a rank and nccl where there are enough
GPUs, the CPU and gloo otherwise. Nothing else should run on the machine meanwhile.
"""

import argparse
import os
import sys
import tempfile

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
        arguments = (folder, options.ranks, options.repeats)
        mp.start_processes(measure, arguments, nprocs=options.ranks, start_method="spawn")
        seconds = torch.load(f"{folder}/seconds", weights_only=True)
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


def measure(rank: int, folder: str, world_size: int, repeats: int) -> None:
    """One rank: time all sizes; rank 0 writes float32 [sizes, repeats] to ``seconds``."""
    torch.set_num_threads(1)
    placement = place(rank, world_size)
    if placement.device.type == "cuda":
        torch.cuda.set_device(placement.device)
    else:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    where = {"init_method": f"file://{folder}/store", "rank": rank, "world_size": world_size}
    dist.init_process_group(placement.backend, **where)
    seconds = time_all_reduce(SIZES, repeats, placement.device)
    if rank == 0:
        torch.save(seconds, f"{folder}/seconds")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
