"""One optimizer step of a model on a mesh."""

import torch
from torch.optim import Optimizer

from rankbook.mesh.building import Part
from rankbook.mesh.clipping import clip_grad_norm, summed
from rankbook.mesh.experts import average_over_ep, rebalance
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
    """Give the parameters the whole batch's gradient; return its loss. As `train_step`, before."""
    part.layout.check_window(tokens.shape[1])
    loss = part.step(*(part.plan.share(ids, part.replica) for ids in (tokens, targets)))
    finish(part)
    return loss


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
