"""Ranks of which one does not come, until that has been told; for test_hints.py."""

import os
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from rankbook.autopsy import waiting


def all_reduce() -> None:
    dist.all_reduce(torch.zeros(4))  # the line that is told


def receive() -> None:
    if dist.get_rank() == 0:
        dist.recv(torch.zeros(2), src=1)
    else:
        dist.send(torch.zeros(2), dst=0)


def late(call: Callable[[], None], absent: bool) -> list[str]:
    """Rank 1 comes to `call` when rank 0 has said that it waits; what each rank says.

    absent: rank 1 has to say that it has not come, too.
    """
    os.environ[waiting.VARIABLE] = "0.5"
    rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        store.set(f"said by {rank}", line)

    with waiting.hints("demo", say):
        while rank == 1 and not (store.check(["said by 0"]) and (said or not absent)):
            time.sleep(0.01)
        call()
    return said
