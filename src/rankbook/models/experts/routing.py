"""Which experts each token goes to, and how much each of them counts.

Sources: https://arxiv.org/abs/2101.03961, section 2; of the bias, https://arxiv.org/abs/2408.15664
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rankbook.models.experts.local import local


class Routing(NamedTuple):
    """What a `Router` says of tokens.

    chosen: (tokens, top_k), numbers of experts, the most wanted first. weights: (tokens, top_k), of
    what they give. probabilities: (tokens, experts), of all experts, before any is chosen.
    """

    chosen: Tensor
    weights: Tensor
    probabilities: Tensor

    @property
    def counts(self) -> Tensor:
        """How many tokens have chosen each expert: (experts,), dropped ones included."""
        return torch.bincount(self.chosen.flatten(), minlength=self.probabilities.shape[1])


class Router(nn.Module):
    """Tokens (tokens, d_model) to their `Routing`: the `top_k` most probable of `experts`.

    Weights are the probabilities of those chosen; with two or more they are made to add up to 1,
    as in Mixtral. With one they stay, as in Switch: a weight that is always 1 would teach the
    router nothing. `bias` is added for the choice only (`BiasBalance` moves it; no gradient does).
    `tally` (3, experts) float64 counts since `forget`, in passes with gradients: choices, sums of
    probabilities, dropped choices; of the last `window` passes, if that is set. Computes in
    float32, also under autocast. Raises ValueError.
    """

    def __init__(self, d_model: int, experts: int, top_k: int):
        super().__init__()
        if not 1 <= top_k <= experts:
            raise ValueError(
                f"top_k is {top_k}, and there are {experts} experts; use 1 to {experts}"
            )
        self.top_k = top_k
        self.weight = nn.Parameter(torch.randn(experts, d_model) * d_model**-0.5)
        # a parameter, so that whatever keeps parameters keeps it
        self.bias = nn.Parameter(torch.zeros(experts), requires_grad=False)
        self.window: int | None = None
        self._passes: list[Tensor] = []

    def forward(self, x: Tensor) -> Routing:
        with torch.autocast(x.device.type, enabled=False):
            weight = local(self.weight)
            dtype = torch.promote_types(x.dtype, torch.float32)
            probabilities = (x.to(dtype) @ weight.to(dtype).T).softmax(dim=-1)
        chosen = (probabilities.detach() + local(self.bias)).topk(self.top_k, dim=-1).indices
        weights = probabilities.gather(1, chosen)
        if self.top_k > 1:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        routing = Routing(chosen, weights, probabilities)
        if torch.is_grad_enabled():
            self._count(routing)
        return routing

    @property
    def tally(self) -> Tensor:
        """What was counted: see above."""
        nothing = torch.zeros(3, len(self.bias), dtype=torch.float64, device=self.bias.device)
        return torch.stack([nothing, *self._passes]).sum(dim=0)

    def forget(self) -> None:
        """Begin to count anew."""
        self._passes = []

    def count_dropped(self, chosen: Tensor) -> None:
        """Of the choices of the last pass, those of these experts, (any,), were dropped."""
        self._passes[-1][2] += torch.bincount(chosen, minlength=len(self.bias))

    @torch.no_grad()
    def _count(self, routing: Routing) -> None:
        counts, mass = routing.counts.double(), routing.probabilities.double().sum(dim=0)
        self._passes.append(torch.stack([counts, mass, torch.zeros_like(mass)]))
        if self.window is None:
            self._passes = [self.tally]
        else:
            self._passes = self._passes[-self.window :]
