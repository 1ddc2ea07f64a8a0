"""What every rank is called, and a ring all_reduce beside the library's.

torchrun --standalone --nproc-per-node 4 -m rankbook.programs.ranks_live
"""

import os

import torch
import torch.distributed as dist

from rankbook.comm.all_reduce.ring import ring_all_reduce
from rankbook.core.placement import init
from rankbook.programs.ending import exit_on_user_error
from rankbook.programs.options import world_size_from_env

START = "torchrun --standalone --nproc-per-node 4 -m rankbook.programs.ranks_live"
NAMES = (
    "RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_WORLD_SIZE",
)


def main() -> dict:
    """Run on every rank; return its names, the sum (12,) and the bytes that it sent.

    Raises RuntimeError if the ring's sum is not the library's.
    """
    with exit_on_user_error("ranks_live"):
        world_size_from_env(START)
        device = init()
    with exit_on_user_error("ranks_live", OSError):
        result = compare(device)
    dist.destroy_process_group()
    return result


def compare(device: torch.device) -> dict:
    """The names of this rank, and one sum by two ways."""
    rank = dist.get_rank()
    mine = torch.arange(12.0, device=device) * rank

    by_ring, by_library = mine.clone(), mine.clone()
    messages = ring_all_reduce(by_ring)
    dist.all_reduce(by_library)
    if not torch.equal(by_ring, by_library):
        raise RuntimeError(f"rank {rank}: {by_ring} is not {by_library}")

    return {
        "names": {name: int(os.environ[name]) for name in NAMES},
        "total": by_ring,
        "bytes_sent": sum(message.nbytes for message in messages),
    }


if __name__ == "__main__":
    print(main(), flush=True)
