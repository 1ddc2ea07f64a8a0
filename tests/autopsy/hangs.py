"""Programs that hang, one function for each way; every rank of a job calls it."""

import datetime
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from rankbook.autopsy import record
from tests.waiting import SOON, until

LONG = 4 * SOON  # seconds: what waits so long is ended by the test
ALL = ("skips", "two_orders", "two_shapes", "subgroup", "subgroup_of_members", "loader", "prints",
       "dies", "sends", "backward")  # fmt: skip


def run(name: str, rank: int, size: int, folder: str) -> None:
    """What a process of the test does: join a group, and hang in the function `name`."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    record(Path(folder) / "records", seconds=0.2)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=LONG),
    )
    globals()[name](rank)


def skips(rank: int) -> None:
    dist.all_reduce(torch.ones(3))
    if rank != 1:
        dist.all_reduce(torch.ones(4))
    time.sleep(LONG * (rank == 1))


def two_orders(rank: int) -> None:
    first, second = torch.ones(4), torch.ones(4)
    if rank == 1:
        dist.broadcast(second, 0)
        dist.all_reduce(first)
    else:
        dist.all_reduce(first)
        dist.broadcast(second, 0)
    dist.barrier()


def two_shapes(rank: int) -> None:
    length = 5 if rank == 2 else 4
    dist.all_reduce(torch.ones(length))
    time.sleep(LONG)


def subgroup(rank: int) -> None:
    if rank < 2:
        dist.new_group([0, 1, 2])
    dist.all_reduce(torch.ones(4))


def subgroup_of_members(rank: int) -> None:
    if rank < 2:
        dist.new_group([0, 1])  # works, and the ranks count their groups differently from here on
    dist.new_group([0, 1, 2])


class Slow(Dataset):
    """A file that does not come, on rank 1."""

    def __init__(self, rank: int):
        self.rank = rank

    def __len__(self) -> int:
        return 4

    def __getitem__(self, item: int) -> torch.Tensor:
        if self.rank == 1 and item == 2:
            time.sleep(LONG)
        return torch.ones(2)


def loader(rank: int) -> None:
    for batch in DataLoader(Slow(rank), batch_size=1):
        dist.all_reduce(batch)


def prints(rank: int) -> None:
    if rank == 1:
        _, full = os.pipe()  # nobody reads what it prints, as with a log that is stuck
        sys.stdout = os.fdopen(full, "w")
        print("x" * 10_000_000)
    dist.all_reduce(torch.ones(4))


def dies(rank: int) -> None:
    dist.all_reduce(torch.ones(3))
    if rank == 1:
        threading.Thread(target=die_when_seen, daemon=True).start()
        time.sleep(LONG)
    dist.all_reduce(torch.ones(4))


def die_when_seen() -> None:
    """In a thread: when the recorder has written down that the main one sleeps in `dies`."""
    path = record()
    assert path
    until(lambda: path.exists() and '"time.sleep(LONG)"' in path.read_text())
    os.kill(os.getpid(), signal.SIGKILL)


def sends(rank: int) -> None:
    if rank == 0:
        dist.send(torch.ones(1_000_000), 2)
    dist.barrier()


def backward(rank: int) -> None:
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    for step in range(3):
        loss = model(torch.ones(2, 4)).sum()
        if rank == 1 and step == 2:
            time.sleep(LONG)  # it leaves this step out
        loss.backward()


def cut(rank: int) -> None:
    while True:
        dist.all_reduce(torch.ones(4))
        time.sleep(0.01)


if __name__ == "__main__":  # under torchrun, whose environment says the rank
    record(sys.argv[2], seconds=0.2)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=LONG))
    globals()[sys.argv[1]](dist.get_rank())
