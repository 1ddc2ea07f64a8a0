"""A layer of experts, whole in one process or divided among the ranks of a group.

Source: https://arxiv.org/abs/2006.16668, section 3.2 (a token's way to its experts and back).
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from rankbook.comm.differentiable import all_to_all
from rankbook.models.experts.balancing import Groups, balance_loss, with_loss
from rankbook.models.experts.dropping import capacity, served
from rankbook.models.experts.local import local
from rankbook.models.experts.routing import Router, Routing

PER = ("row", "rank")


class Experts(nn.Module):
    """Tokens (tokens, d_model) or (batch, length, d_model), each through `top_k` of `experts`.

    Each expert is a perceptron of two matrices, `up` (experts, d_hidden, d_model) and `down`
    (experts, d_model, d_hidden), without biases. group: each of its ranks brings tokens of its own
    and holds experts / ranks of the experts, in order; None: all are here. Every rank draws the
    initial values of all and keeps its own: after the same seed the ranks hold together what one
    process holds, and the same router.

    capacity_factor: None, and no token is dropped; otherwise an expert takes `capacity(...)` of
    the tokens, counted per "row" of (batch, length, d_model) or per "rank", over all that it
    brings. What a row drops is the same however rows are spread over ranks; per rank it is not.
    A dropped choice counts 0: the token has the layer's input alone, if the caller adds it.

    balance_weight: of `balance_loss`, over `balance_groups`, which backward passes then add
    themselves, in whatever stage of a pipeline the layer is. Of the last pass, `routing` is the
    router's, `dropped` the number of choices dropped, and `sent` (ranks, experts / ranks) how many
    rows went from here to each expert of each rank. Raises ValueError.
    """

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        experts: int,
        top_k: int,
        capacity_factor: float | None = None,
        group: dist.ProcessGroup | None = None,
        *,
        per: str = "row",
        dropout: float = 0.0,
        balance_weight: float = 0.0,
    ):
        super().__init__()
        if per not in PER:
            raise ValueError(f"capacity per {per!r} is unknown; use {' or '.join(PER)}")
        self.experts, self.top_k, self.per = experts, top_k, per
        self.capacity_factor, self.group = capacity_factor, group
        self.balance_weight, self.balance_groups = balance_weight, _groups(group)
        self.router = Router(d_model, experts, top_k)
        mine = self.mine()
        up = torch.randn(experts, d_hidden, d_model) * d_model**-0.5
        down = torch.randn(experts, d_model, d_hidden) * d_hidden**-0.5
        self.up, self.down = (nn.Parameter(each[mine].clone()) for each in (up, down))
        self.dropout = nn.Dropout(dropout)
        self.routing: Routing | None = None
        self.dropped = torch.zeros((), dtype=torch.int64)
        self.sent: Tensor | None = None

    def mine(self) -> slice:
        """Which of the experts are on this rank."""
        if self.group is None:
            return slice(0, self.experts)
        ranks, rank = dist.get_world_size(self.group), dist.get_rank(self.group)
        if self.experts % ranks:
            raise ValueError(
                f"{ranks} ranks cannot hold equally many of {self.experts} experts; "
                "choose a divisor, or another number of experts"
            )
        each = self.experts // ranks
        return slice(rank * each, (rank + 1) * each)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, -2)
        routing = self.router(tokens)
        room = self._room(x, routing)
        self.routing, self.dropped = routing, (~room).sum()
        if self.capacity_factor is not None and torch.is_grad_enabled():
            self.router.count_dropped(routing.chosen[~room])
        # copies of tokens, by expert: those of the first expert come first, in their order
        order = torch.where(room.flatten(), routing.chosen.flatten(), self.experts).argsort(
            stable=True
        )[: int(room.sum())]
        token = order // self.top_k
        counts = torch.bincount(routing.chosen.flatten()[order], minlength=self.experts)
        ranks = 1 if self.group is None else dist.get_world_size(self.group)
        self.sent = counts.view(ranks, -1)
        given = self._through(tokens[token], self.sent)
        weights = routing.weights.flatten()[order, None]
        y = torch.zeros_like(tokens, dtype=weights.dtype).index_add(0, token, given * weights)
        y = y.to(tokens.dtype).view_as(x)
        if self.balance_weight and torch.is_grad_enabled():
            loss = self.balance_weight * balance_loss(routing, self.balance_groups)
            y = with_loss(y, loss)
        return y

    def _room(self, x: Tensor, routing: Routing) -> Tensor:
        """Which choices are served: (tokens, top_k)."""
        if self.capacity_factor is None:
            return torch.ones_like(routing.chosen, dtype=torch.bool)
        length = x.shape[-2] if self.per == "row" else len(routing.chosen)
        limit = capacity(length, self.experts, self.top_k, self.capacity_factor)
        rows = routing.chosen.view(-1, length, self.top_k)
        return served(rows, self.experts, limit).view_as(routing.chosen)

    def _through(self, copies: Tensor, there: Tensor) -> Tensor:
        """What the experts give for `copies` (rows, d_model), in their order.

        there: `sent`; the copies lie in order of their experts.
        """
        if self.group is None:
            return self._work(copies, there[0].tolist())
        here = torch.empty_like(there)  # of each rank, for each of my experts
        dist.all_to_all_single(here, there, group=self.group)
        sent, received = (counts.sum(dim=1).tolist() for counts in (there, here))
        arrived = all_to_all(copies, sent, received, self.group)
        # they lie by source and then by expert; an expert works on all of its own at once
        expert = torch.arange(here.shape[1], device=here.device).repeat(len(here))
        order = expert.repeat_interleave(here.flatten()).argsort(stable=True)
        y = self._work(arrived[order], here.sum(dim=0).tolist())
        return all_to_all(y[order.argsort()], received, sent, self.group)

    def _work(self, x: Tensor, counts: list[int]) -> Tensor:
        """Each of this rank's experts on its own of the rows of `x`; none may be left out: all
        have gradients, if of zeros."""
        ups, downs = local(self.up), local(self.down)
        parts = zip(x.split(counts), ups, downs, strict=True)
        return torch.cat([self.dropout(F.relu(rows @ up.T)) @ down.T for rows, up, down in parts])


def _groups(group: dist.ProcessGroup | None) -> Groups:
    return () if group is None else (group,)
