"""One optimizer step on a global batch, whoever computes which part of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

Share = TypeVar("Share")  # samples of one rank, in whatever form its loader gives them


@dataclass(frozen=True)
class Step:
    """The mean `loss` of the global batch before the step, and how many `samples` it has."""

    loss: float
    samples: int


def elastic_step(
    model: nn.Module,
    optimizer: Optimizer,
    losses: Callable[[nn.Module, Share], Tensor],
    share: Share | None,
    *,
    max_norm: float | None = None,
    group: dist.ProcessGroup | None = None,
) -> Step:
    """One step on the global batch, of which this rank has `share`; on all ranks of `group`.

    The gradient is the sum over the samples of all ranks, divided by their number: the same for
    any number of ranks, to rounding. All of it is summed by one all_reduce of one flat tensor,
    which the same ranks do in the same order after any restart: to the bit.

    model: the same on all ranks, not wrapped, or sharded over all of them by ``fully_shard``; its
    layers look at each sample alone (no batch norm). losses: gives the loss of each sample of a
    share, (n,). share: None where this rank has no sample. With a sharded model `losses` gets that
    None, too, and gives the loss of any sample: it takes part in gathering the parameters, and
    counts for nothing. max_norm: of the gradient, if it shall be clipped. Without a process group
    this rank is all there is. Raises ValueError, on all ranks, if none of them has a sample.
    """
    optimizer.zero_grad()
    parameters = list(model.parameters())
    loss = torch.zeros(1, device=parameters[0].device)
    count = torch.zeros_like(loss)
    sharded = hasattr(parameters[0], "to_local")  # a DTensor, whose module is slow to import
    if sharded:
        _add_up(model)
    if share is not None:
        of_samples = losses(model, share)
        of_samples.sum().backward()
        loss += of_samples.detach().sum()
        count += len(of_samples)
    elif sharded:
        (losses(model, cast(Share, None)).sum() * 0).backward()
    combine = _divide_shards if sharded else _sum_over_ranks
    loss, count = combine([loss, count], parameters, group)
    if not count:
        raise ValueError("no rank has a sample of this step; a global batch has one at least")
    if max_norm is not None:
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return Step((loss / count).item(), int(count))


@torch.no_grad()
def _sum_over_ranks(
    numbers: list[Tensor], parameters: list[nn.Parameter], group: dist.ProcessGroup | None
) -> list[Tensor]:
    """Make each gradient the mean over all samples; return the sums of `numbers`.

    The last of `numbers` counts the samples.
    """
    trained = [p for p in parameters if p.requires_grad]
    for p in trained:
        if p.grad is None:  # of an empty share; a parameter that no sample used gets zeros too
            p.grad = torch.zeros_like(p)
    of_parameters = [cast(Tensor, p.grad) for p in trained]
    # counts are exact in float32 up to 2^24 samples
    flat = torch.cat([each.float().flatten() for each in (*numbers, *of_parameters)])
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(flat, group=group)
    *sums, gradients = flat.split([1] * len(numbers) + [len(flat) - len(numbers)])
    gradients /= sums[-1]
    parts = gradients.split([p.numel() for p in trained])
    for of_parameter, gradient in zip(of_parameters, parts, strict=True):
        of_parameter.copy_(gradient.view_as(of_parameter))
    return sums


def _add_up(model: nn.Module) -> None:
    """Let ``fully_shard`` add the ranks' gradients; by itself it takes their mean."""
    for module in model.modules():
        if set_factor := getattr(module, "set_gradient_divide_factor", None):
            set_factor(1.0)
            cast(Any, module).set_force_sum_reduction_for_comms(True)  # gloo has no other scaling


@torch.no_grad()
def _divide_shards(
    numbers: list[Tensor], parameters: list[nn.Parameter], group: dist.ProcessGroup | None
) -> list[Tensor]:
    """As `_sum_over_ranks`, of gradients that are sums over all ranks, a shard here."""
    flat = torch.cat(numbers)
    dist.all_reduce(flat, group=group)
    for p in parameters:
        if p.grad is not None:
            cast(Any, p.grad).to_local().div_(flat[-1])
    return list(flat.split(1))
