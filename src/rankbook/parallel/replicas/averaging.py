"""Data parallelism by hand: replicas of a stage average their gradients after the step.

It is right for every pipeline schedule, because it waits until the schedule has done its last
backward. Wrappers that reduce from inside backward must know which one is the last.
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn

from rankbook.core.dtensor import to_local


def average_gradients(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup) -> None:
    """Replace each gradient, in place, by its mean over `group`, `mesh["dp"].get_group()`.

    All ranks of the group must hold gradients of the same parameters, in the same order. Of a
    DTensor they hold the same part.
    """
    size = dist.get_world_size(group)
    if size == 1:
        return
    gradients = [to_local(p.grad) for p in parameters if p.grad is not None]
    works = [dist.all_reduce(gradient, group=group, async_op=True) for gradient in gradients]
    for work in works:  # all are on their way before the first is waited for
        work.wait()
    for gradient in gradients:  # gloo has no average
        gradient.div_(size)


def average(value: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """The mean of `value` over `group`, in place and returned."""
    dist.all_reduce(value, group=group)
    return value.div_(dist.get_world_size(group))
