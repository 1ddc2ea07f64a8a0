"""One local rank of the doctor's round trip: it joins a group, sums, and writes what it saw.

Started by `round_trip` as ``python -m rankbook.doctor.rank``, with the words that it gives.
"""

import json
import os
import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path

from rankbook.core.parent_death import die_with_parent

BYTES = {"gloo": 16 << 20, "nccl": 256 << 20}
TIMES, WARM = 5, 2


def main(backend: str, rank: int, ranks: int, folder: Path, seconds: float) -> None:
    """Sum up over `ranks`; each stage that is reached is a line of standard output."""
    import torch
    import torch.distributed as dist

    print("started", flush=True)
    torch.set_num_threads(1)
    if backend == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        backend,
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=seconds),
    )
    dist.barrier()
    print("joined", flush=True)
    device = "cuda" if backend == "nccl" else "cpu"
    seen = {
        "bytes": BYTES[backend],
        "seconds": all_reduce(BYTES[backend] // 4, device),
        "latency": all_reduce(1, device),
    }
    dist.barrier()  # a group that is left while others still speak breaks theirs
    (folder / f"{rank}.json").write_text(json.dumps(seen))
    print("done", flush=True)
    os._exit(0)  # nothing is to be tidied up, and a backend that hangs there is not our question


def all_reduce(numbers: int, device: str) -> float:
    """The median of the seconds that an all_reduce of `numbers` float32 takes here.

    Raises ValueError where the sum is wrong, as it is where GPUs' direct copies go astray.
    """
    import torch
    import torch.distributed as dist

    rank, ranks = dist.get_rank(), dist.get_world_size()
    right, times = ranks * (ranks + 1) / 2, []
    for _ in range(WARM + TIMES):
        summed = torch.full((numbers,), float(rank + 1), device=device)
        dist.barrier()
        begin = now(device)
        dist.all_reduce(summed)
        times.append(now(device) - begin)
        if not bool((summed == right).all()):
            raise ValueError(f"the sum over {ranks} ranks is wrong: {summed[0]:g}, not {right:g}")
    return statistics.median(times[WARM:])


def now(device: str) -> float:
    """Seconds of the clock once `device` has done all that it was given."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    die_with_parent(int(sys.argv[6]))
    backend, rank, ranks, folder, seconds = sys.argv[1:6]
    main(backend, int(rank), int(ranks), Path(folder), float(seconds))
