"""One optimizer step of a model on a mesh."""

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.optim import Optimizer

from rankbook.core.dtensor import to_local
from rankbook.parallel.mesh.clipping import clip_grad_norm, summed
from rankbook.parallel.mesh.experts import average_over_ep, rebalance
from rankbook.parallel.mesh.sharded_model import ShardedModel
from rankbook.parallel.replicas.averaging import average_gradients


def train_step(
    model: ShardedModel,
    optimizer: Optimizer,
    tokens: torch.Tensor,
    targets: torch.Tensor,
    max_norm: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step on the whole batch, of which each replica takes its share; on all ranks.

    tokens, targets: (batch, length), the same on all ranks. max_norm: that of the gradient, for
    `optimizer`, which holds the parameters of `model`. Returns the loss before the step and
    the norm of the whole model's gradient before clipping: scalars, the same on all ranks; of a
    replica that is `model.decoupled`, on its own ranks.
    Raises ValueError, on all ranks alike, if the batch does not suit the layout.
    """
    optimizer.zero_grad()
    loss = accumulate(model, tokens, targets)
    norm = clip_grad_norm(model.parameters(), max_norm, model.model_mesh)
    optimizer.step()
    if model.config.experts:
        model.expert_load = rebalance(model.modules.values(), model.config, model.mesh)
    return loss, norm


def accumulate(model: ShardedModel, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Give the parameters the whole batch's gradient; return its loss. As `train_step`, before.

    A pipeline of several stages is run by its schedule. One stage accumulates gradients in a loop,
    whatever the schedule is called: forward and backward of one microbatch after the other.
    """
    model.layout.check_window(tokens.shape[1])
    share = [model.plan.share(ids, model.replica) for ids in (tokens, targets)]
    loss = model.step(*share) if model.plan.stages > 1 else _one_by_one(model, *share)
    reduce_gradients(model)
    return loss


def _one_by_one(model: ShardedModel, tokens: Tensor, targets: Tensor) -> Tensor:
    """As `model.step`, with parameters and gradients sharded again after each microbatch.

    Under torch's pipelining, FSDP2 would keep both whole until the last one. Copies of the shards
    (HSDP) are averaged once, with the last microbatch.
    """
    model.check(tokens, targets)
    (module,) = model.modules.values()
    times = model.plan.microbatches
    cut = [ids.to(model.device).chunk(times) for ids in model.shard(tokens, targets)]
    losses = []
    for number, (ids, wanted) in enumerate(zip(*cut, strict=True), 1):
        if isinstance(module, FSDPModule):
            module.set_requires_all_reduce(number == times)
        losses.append(_backward(model, module, ids, wanted))
    for parameter in model.parameters():
        if parameter.grad is not None and times > 1:  # as torch's schedules: the sum, then the mean
            to_local(parameter.grad).div_(times)
    return model.reduce_loss(torch.stack(losses).mean())


def _backward(model: ShardedModel, module: nn.Module, ids: Tensor, wanted: Tensor) -> Tensor:
    """Add one microbatch's gradients; return its loss. Its logits are gone when this returns."""
    logits = module(ids.contiguous())
    loss = model.pipeline.loss_fn(logits, wanted)
    loss.backward()
    return loss.detach()


def reduce_gradients(model: ShardedModel) -> None:
    """What is left to do with the gradients of `model` when all microbatches are done."""
    parameters = [p for p in model.parameters() if p.grad is not None]
    for parameter in parameters:
        summed(parameter)
    for dimension in model.grad_reduce_dims:
        if dimension == "dp" and model.layout.shard > 1:  # FSDP2 has done it
            continue
        if dimension == "ep":
            average_over_ep(parameters, model.mesh)
        else:
            average_gradients(parameters, model.mesh[dimension].get_group())
