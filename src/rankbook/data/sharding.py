"""Who reads what: every rank has loader workers, and each of them is one reader of many."""

import os
from dataclasses import dataclass

import torch.distributed as dist
from torch.utils.data import get_worker_info


@dataclass(frozen=True)
class Reader:
    """One reader among all: a loader worker (or a rank that loads its data itself).

    Worker `worker` of `workers`, on rank `rank` of `world_size`; all ranks have as many workers.
    Raises ValueError for a number that is out of range.
    """

    rank: int = 0
    world_size: int = 1
    worker: int = 0
    workers: int = 1

    def __post_init__(self):
        for name, number, of in (
            ("rank", self.rank, self.world_size),
            ("worker", self.worker, self.workers),
        ):
            if not 0 <= number < of:
                raise ValueError(
                    f"Reader: {name} {number} of {of}: it has to be from 0 to {of - 1}"
                )

    @classmethod
    def here(cls, rank: int | None = None, world_size: int | None = None) -> "Reader":
        """The reader that calls this: its rank and, in a loader worker, its worker.

        The rank is that of ``torch.distributed`` once it is initialised, before that what
        torchrun put into ``RANK`` and ``WORLD_SIZE``, else 0 of 1. `rank` and `world_size`
        overrule it. ``num_workers=0`` has no worker info: the rank itself is the only worker.
        Raises ValueError if only one of the two variables is set.
        """
        if rank is None or world_size is None:
            rank, world_size = _rank_here()
        info = get_worker_info()
        return (
            cls(rank, world_size)
            if info is None
            else cls(rank, world_size, info.id, info.num_workers)
        )

    @property
    def index(self) -> int:
        """Its number among all readers, 0 to `count` - 1."""
        return self.rank * self.workers + self.worker

    @property
    def count(self) -> int:
        """How many readers there are."""
        return self.world_size * self.workers

    def __str__(self) -> str:
        worker = f", worker {self.worker}" if self.workers > 1 else ""
        return f"rank {self.rank}{worker}"


def _rank_here() -> tuple[int, int]:
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    rank, world_size = (os.environ.get(name) for name in ("RANK", "WORLD_SIZE"))
    if not rank and not world_size:
        return 0, 1
    if not rank or not world_size:
        raise ValueError("RANK and WORLD_SIZE go together, and only one is set: use torchrun")
    return int(rank), int(world_size)
