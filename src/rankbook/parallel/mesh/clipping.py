"""Gradient clipping by the norm of the whole model, however its parameters are cut.

Source of the clipping: R. Pascanu et al., https://arxiv.org/abs/1211.5063, section 3.2.
"""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from rankbook.core.dtensor import to_local


@torch.no_grad()
def clip_grad_norm(
    parameters: Iterable[nn.Parameter], max_norm: float, mesh: DeviceMesh
) -> torch.Tensor:
    """Scale the gradients, in place, so that the whole model's 2-norm is at most `max_norm`.

    parameters: those of this rank; plain ones, and DTensors on any part of `mesh`. mesh: of all
    ranks of the model, with a dimension "pp", as of `PipelinePlan.mesh` and `Layout.mesh`, or of
    one replica that is alone; all of them must call, with gradients that are averaged over
    replicas. Returns the norm before clipping: a scalar, the same on all ranks. Each stage clipped
    by its own norm would change the gradient's direction.

    torch's own function raises for such a mixture. Here each rank counts what it holds, and what n
    ranks hold alike each of them counts as 1/n; so one all_reduce over all ranks gives the sum.
    """
    gradients = [summed(p) for p in parameters if p.grad is not None]
    stage = mesh.size() // mesh["pp"].size()  # ranks that have a part, or a copy, of a parameter
    squares = [to_local(g).square().sum() * (cuts(g) / stage) for g in gradients]
    total = torch.stack(squares).sum() if squares else torch.zeros((), device=mesh.device_type)
    _sum(total, mesh)
    norm = total.sqrt()
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_
    for gradient in gradients:
        to_local(gradient).mul_(factor)
    return norm


def _sum(total: torch.Tensor, mesh: DeviceMesh) -> None:
    """Over all ranks of `mesh`, in place: at once, or along each of its dimensions."""
    if mesh.size() == dist.get_world_size():
        dist.all_reduce(total)
        return
    for dimension in range(mesh.ndim):
        dist.all_reduce(total, group=mesh.get_group(dimension))


def summed(parameter: nn.Parameter) -> torch.Tensor:
    """The gradient of `parameter`, which gets it, cut as it is: sums that were left are done.

    The norms of a sequence parallel layer see a part of each sequence: their gradients are parts
    of a sum until somebody asks for it. And of an embedding cut by rows, torch 2.13 gives each rank
    the whole gradient, of which it needs its rows.
    """
    gradient = parameter.grad
    assert gradient is not None
    both = isinstance(gradient, DTensor) and isinstance(parameter, DTensor)
    if both and gradient.placements != parameter.placements:
        gradient = parameter.grad = gradient.redistribute(placements=parameter.placements)
    return gradient


def cuts(gradient: torch.Tensor) -> int:
    """Into how many parts, on as many ranks, `gradient` is cut."""
    if not isinstance(gradient, DTensor):
        return 1
    sizes = zip(gradient.placements, gradient.device_mesh.shape, strict=True)
    cuts = 1
    for placement, size in sizes:
        cuts *= 1 if placement.is_replicate() else size
    return cuts
