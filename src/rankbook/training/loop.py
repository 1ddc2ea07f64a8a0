"""One optimizer step, one evaluation, and what makes a step a function of its number."""

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from rankbook.parallel.mesh.clipping import clip_grad_norm
from rankbook.parallel.pipeline.pipeline import Pipeline
from rankbook.parallel.pipeline.plan import PipelinePlan
from rankbook.parallel.replicas.averaging import average_gradients
from rankbook.training.metrics import mean_loss


def train_step(
    pipeline: Pipeline,
    optimizer: Optimizer,
    tokens: torch.Tensor,
    targets: torch.Tensor,
    max_norm: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One step on the whole batch, of which each replica takes its share; on all ranks.

    tokens, targets: (batch, length), the same on all ranks. max_norm: that of the gradient, for
    `optimizer`, which holds the parameters of `pipeline`. Returns the loss before the step and
    the norm of the whole model's gradient before clipping: scalars, the same on all ranks.
    Raises ValueError, on all ranks alike, if the batch does not suit the plan.
    """
    mesh, plan = pipeline.mesh, pipeline.plan
    replica = mesh["dp"].get_local_rank()
    optimizer.zero_grad()
    loss = pipeline.step(plan.share(tokens, replica), plan.share(targets, replica))
    average_gradients(pipeline.parameters(), mesh["dp"].get_group())
    norm = clip_grad_norm(pipeline.parameters(), max_norm, mesh)
    optimizer.step()
    return loss, norm


class Evaluated(Protocol):
    """One rank's part of a model that computes losses: a `Pipeline` or a `ShardedModel`."""

    plan: PipelinePlan
    modules: dict[int, nn.Module]

    @property
    def replica(self) -> int: ...

    def evaluate(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor: ...


def evaluate(part: Evaluated, batches: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """The mean loss per token, in nats, over whole `batches` (tokens, targets); on all ranks.

    Without dropout: the modules are in evaluation mode meanwhile, and back in training mode after.
    """
    replica = part.replica

    def loss_of(tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        share = part.plan.share
        return part.evaluate(share(tokens, replica), share(targets, replica))

    for module in part.modules.values():
        module.eval()
    try:
        return mean_loss(loss_of, batches)
    finally:
        for module in part.modules.values():
            module.train()


def learning_rate(step: int, peak: float, warm_up: int) -> float:
    """The rate of optimizer step `step` (from 0): `warm_up` steps up, then down as 1 / sqrt(step).

    It does not ask for how many steps there will be, so a run can be made longer later. Source:
    https://arxiv.org/abs/1706.03762, section 5.3, with `peak` as the highest rate.
    """
    return peak * min((step + 1) / warm_up, (warm_up / (step + 1)) ** 0.5)


def seed_step(seed: int, step: int, rank: int) -> None:
    """Make this rank's random numbers (dropout) a function of `seed`, `step` and `rank`.

    So a resumed run draws what an uninterrupted one would, and no generator has to be saved.
    """
    torch.manual_seed((seed * 1_000_003 + step) * 65_537 + rank)
