"""A step of DDP between two hosts, before and after the cable between them is slow.

Needs what `hosts` needs. Each rank is ``python -m rankbook.testbed.slow_step RANK ADDRESS``.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from rankbook.testbed.hosts import Host, search_path, two_hosts

STEPS = 4  # before, and as many after; the first of each is not counted
WIDTH, HEIGHT = 250, 200
NBYTES = 4 * (WIDTH * HEIGHT + HEIGHT)  # of all gradients
SOURCES = Path(__file__).resolve().parents[2]


def step_seconds(bits_per_second: float, delay: float = 0.0) -> tuple[float, float]:
    """Seconds of the fastest step as the cable is, and after it was limited.

    delay: seconds from one host to the other, besides. Two ranks average `NBYTES` of gradients.
    Raises CalledProcessError or RuntimeError where there are no such hosts
    (`rankbook.testbed.hosts.why_not_slow`), or where a rank fails.
    """
    with two_hosts() as hosts:
        first, _ = (_start(rank, host, hosts[0].address) for rank, host in enumerate(hosts))
        before = _seconds(first)
        for host in hosts:
            host.limit(bits_per_second, delay)
        _go_on(first)
        return min(before[1:]), min(_seconds(first)[1:])


def _start(rank: int, host: Host, address: str) -> subprocess.Popen:
    python = os.pathsep.join([str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        host.command(sys.executable, "-m", __name__, str(rank), address),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "GLOO_SOCKET_IFNAME": host.interface,
            "PATH": search_path(),
            "PYTHONPATH": python,
            "TORCH_CPP_LOG_LEVEL": "ERROR",  # an address without a name is no news here
        },
    )


def _seconds(rank: subprocess.Popen) -> list[float]:
    assert rank.stdout is not None
    lines = [rank.stdout.readline() for _ in range(STEPS)]
    if not all(lines):
        raise RuntimeError("a rank of the two hosts has ended early; it has said why above")
    return [float(line) for line in lines]


def _go_on(rank: subprocess.Popen) -> None:
    assert rank.stdin is not None
    rank.stdin.write("\n")
    rank.stdin.flush()


def _be_a_rank(rank: int, address: str) -> None:
    """Rank 0 says how long each step took; after half of them it waits for a line."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    where = f"tcp://{address}:29500"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=2)
    ddp = DistributedDataParallel(torch.nn.Linear(WIDTH, HEIGHT))
    for step in range(2 * STEPS):
        dist.barrier()
        start = time.perf_counter()
        ddp(torch.ones(1, WIDTH)).sum().backward()
        if rank == 0:
            sys.stdout.write(f"{time.perf_counter() - start}\n")
            sys.stdout.flush()
            if step == STEPS - 1:
                sys.stdin.readline()  # until the cable is slow
    dist.destroy_process_group()


if __name__ == "__main__":
    _be_a_rank(int(sys.argv[1]), sys.argv[2])
