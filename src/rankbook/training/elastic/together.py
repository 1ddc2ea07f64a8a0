"""What all ranks know alike; one process without a group is a world of one."""

from collections.abc import Callable
from typing import Any

import torch.distributed as dist


def place() -> tuple[int, int]:
    """This rank, and how many there are: 0 and 1 where there is no process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def gather(value: Any) -> list:
    """`value` of every rank."""
    values = [value] * place()[1]
    if len(values) > 1:
        dist.all_gather_object(values, value)
    return values


def from_first(make: Callable[[], Any], group: dist.ProcessGroup | None = None) -> Any:
    """What `make()` gives on rank 0, on all ranks, which wait for it; its error too."""
    rank, ranks = place()
    box = [None, None]
    if rank == 0:
        try:
            box[0] = make()
        except (OSError, ValueError) as error:
            box[1] = error
    if ranks > 1:
        dist.broadcast_object_list(box, group=group)
    if box[1]:
        raise box[1]
    return box[0]
