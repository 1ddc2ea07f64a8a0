"""One optimizer step of a model on a mesh."""

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.optim import Optimizer

from rankbook.core.dtensor import to_local
from rankbook.mesh.building import Part
from rankbook.mesh.experts import average_over_ep, rebalance
from rankbook.parallel.clipping import clip_grad_norm, summed
from rankbook.parallel.replicas import average_gradients


def train_step(
    part: Part,
    optimizer: Optimizer,
    tokens: torch.Tensor,
    targets: torch.Tensor,
    max_norm: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step on the whole batch, of which each replica takes its share; on all ranks.

    tokens, targets: (batch, length), the same on all ranks. max_norm: that of the gradient, for
    `optimizer`, which holds the parameters of `part`. Returns the loss before the step and
    the norm of the whole model's gradient before clipping: scalars, the same on all ranks; of a
    replica that is `part.alone`, on its own ranks.
    Raises ValueError, on all ranks alike, if the batch does not suit the layout.
    """
    optimizer.zero_grad()
    loss = accumulate(part, tokens, targets)
    norm = clip_grad_norm(part.parameters(), max_norm, part.together)
    optimizer.step()
    if part.config.experts:
        part.load = rebalance(part)
    return loss, norm


def accumulate(part: Part, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Give the parameters the whole batch's gradient; return its loss. As `train_step`, before.

    A pipeline of several stages is run by its schedule. One stage accumulates gradients in a loop,
    whatever the schedule is called: forward and backward of one microbatch after the other.
    """
    part.layout.check_window(tokens.shape[1])
    mine = [part.plan.share(ids, part.replica) for ids in (tokens, targets)]
    loss = part.step(*mine) if part.plan.stages > 1 else _one_by_one(part, *mine)
    finish(part)
    return loss


def _one_by_one(part: Part, tokens: Tensor, targets: Tensor) -> Tensor:
    """As `part.step`, with parameters and gradients sharded again after each microbatch.

    Under torch's pipelining, FSDP2 would keep both whole until the last one. Copies of the shards
    (HSDP) are averaged once, with the last microbatch.
    """
    part.check(tokens, targets)
    (module,) = part.modules.values()
    times = part.plan.microbatches
    cut = [part.mine(ids).to(part.device).chunk(times) for ids in (tokens, targets)]
    losses = []
    for number, (ids, wanted) in enumerate(zip(*cut, strict=True), 1):
        if isinstance(module, FSDPModule):
            module.set_requires_all_reduce(number == times)
        losses.append(_backward(part, module, ids, wanted))
    for parameter in part.parameters():
        if parameter.grad is not None and times > 1:  # as torch's schedules: the sum, then the mean
            to_local(parameter.grad).div_(times)
    return part.average(torch.stack(losses).mean())


def _backward(part: Part, module: nn.Module, ids: Tensor, wanted: Tensor) -> Tensor:
    """Add one microbatch's gradients; return its loss. Its logits are gone when this returns."""
    logits = module(ids.contiguous())
    loss = part.loss_fn(logits, wanted)
    loss.backward()
    return loss.detach()


def finish(part: Part) -> None:
    """What is left to do with the gradients of `part` when all microbatches are done."""
    parameters = [p for p in part.parameters() if p.grad is not None]
    for parameter in parameters:
        summed(parameter)
    for dimension in part.meeting:
        if dimension == "dp" and part.layout.shard > 1:  # FSDP2 has done it
            continue
        if dimension == "ep":
            average_over_ep(parameters, part.mesh)
        else:
            average_gradients(parameters, part.mesh[dimension].get_group())
