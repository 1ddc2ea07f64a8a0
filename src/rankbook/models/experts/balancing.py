"""Equal work for all experts: by a loss, or by a bias.

Sources: of the loss, https://arxiv.org/abs/2101.03961, section 2.2; of the sums over all ranks,
https://arxiv.org/abs/2501.11873; of the bias, https://arxiv.org/abs/2408.15664
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rankbook.models.experts.routing import Router, Routing

Groups = Sequence[dist.ProcessGroup]


def balance_loss(routing: Routing, group: dist.ProcessGroup | Groups | None = None) -> Tensor:
    """experts x the sum over experts of (share of the choices) x (mean probability): a scalar.

    It is 1 where all experts are chosen equally often, and up to experts / top_k where the same
    few always are. group: the ranks that have the other tokens, or several groups one after the
    other (of a mesh: all its dimensions); all of them must call.

    Shares and probabilities are of the tokens of all ranks: the value is the same on all of them,
    and that of one process. A mean of local losses is another number: a rank's own shares are
    less equal than all of theirs. The gradient is this rank's share of the whole one, made so
    that AVERAGING gradients over the ranks, as for any loss that is a mean, gives the whole.
    """
    groups = _several(group)
    tokens, experts = routing.probabilities.shape
    mass = routing.probabilities.sum(dim=0)
    sums = torch.cat([routing.counts, mass.detach(), mass.new_tensor([float(tokens), 1.0])])
    for each in groups:
        dist.all_reduce(sums, group=each)
    counts, masses, (all_tokens, ranks) = sums.split([experts, experts, 2])
    own = mass * (ranks / all_tokens)
    probability = own + (masses / all_tokens - own).detach()  # the value of all, gradients of own
    return experts * (counts / counts.sum() * probability).sum()


class BiasBalance:
    """Balance without a loss: experts chosen too often become a little less wanted, by a bias.

    model: its `Router`s, all that are in it, count what they choose. `step`, after the
    optimizer's, adds `rate` to the bias of each expert that had fewer than an equal share of the
    choices since the last step, and takes it from those that had more. group: as for
    `balance_loss`; all ranks then move the same biases in the same way. The bias has no gradient,
    and the tokens' weights do not contain it.
    """

    def __init__(
        self,
        model: nn.Module | Iterable[nn.Module],
        rate: float = 1e-3,
        group: dist.ProcessGroup | Groups | None = None,
    ):
        modules = [model] if isinstance(model, nn.Module) else list(model)
        self.routers = [m for each in modules for m in each.modules() if isinstance(m, Router)]
        self.rate, self.groups = rate, _several(group)

    @torch.no_grad()
    def step(self) -> Tensor:
        """Move the biases, and begin to count anew; returns the counts (routers, experts)."""
        tallies = tally(self.routers, self.groups)
        move(self.routers, tallies[:, 0], self.rate)
        return tallies[:, 0]


@torch.no_grad()
def move(routers: Sequence[Router], counts: Tensor, rate: float) -> None:
    """Add `rate` to the biases of experts with few choices, take it from those with many.

    counts: (routers, experts), of all ranks.
    """
    for router, each in zip(routers, counts, strict=True):
        router.bias.add_((rate * (each.mean() - each).sign()).to(router.bias))


def tally(routers: Sequence[Router], groups: Groups = ()) -> Tensor:
    """(routers, 3, experts): the sums of their `tally` over all `groups`; they begin anew."""
    if not routers:
        return torch.zeros(0, 3, 0, dtype=torch.float64)
    sums = torch.stack([router.tally for router in routers])
    for group in groups:
        dist.all_reduce(sums, group=group)
    for router in routers:
        router.forget()
    return sums


def with_loss(x: Tensor, loss: Tensor) -> Tensor:
    """`x`, whose backward pass adds the gradients of `loss`, a scalar, to those that come."""
    return _WithLoss.apply(x, loss)  # type: ignore[return-value]


class _WithLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, loss: Tensor) -> Tensor:
        ctx.save_for_backward(loss)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (loss,) = ctx.saved_tensors
        return gradients[0], torch.ones_like(loss)


def _several(group: dist.ProcessGroup | Groups | None) -> Groups:
    if group is None:
        return ()
    return group if isinstance(group, Sequence) else (group,)
