"""Data parallelism by hand: replicas of a stage average their gradients after the step.

It is right for every pipeline schedule, because it waits until the schedule has done its last
backward. Wrappers that reduce from inside backward must know which one is the last.
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor


def average_gradients(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup) -> None:
    """Replace each gradient, in place, by its mean over `group`, `mesh["dp"].get_group()`.

    All ranks of the group must hold gradients of the same parameters, in the same order. Of a
    DTensor they hold the same part.
    """
    size = dist.get_world_size(group)
    if size == 1:
        return
    gradients = [here(p.grad) for p in parameters if p.grad is not None]
    works = [dist.all_reduce(gradient, group=group, async_op=True) for gradient in gradients]
    for work in works:  # all are on their way before the first is waited for
        work.wait()
    for gradient in gradients:  # gloo has no average
        gradient.div_(size)


def here(tensor: torch.Tensor) -> torch.Tensor:
    """What of `tensor` is on this rank, in the same memory: of a DTensor, its part."""
    return tensor.to_local().detach() if isinstance(tensor, DTensor) else tensor


def as_part_of(whole: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """`part` as what of a tensor like `whole` is on this rank: the other way round than `here`."""
    if not isinstance(whole, DTensor):
        return part
    placed = whole.device_mesh, whole.placements
    return DTensor.from_local(part, *placed, shape=whole.shape, stride=whole.stride())


def average(value: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """The mean of `value` over `group`, in place and returned."""
    dist.all_reduce(value, group=group)
    return value.div_(dist.get_world_size(group))
