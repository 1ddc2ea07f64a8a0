"""ZeRO stage 1 in torch: DDP's gradients, and each rank updates its share of the parameters.

Source: https://arxiv.org/abs/1910.02054, section 5.1.
"""

from collections.abc import Iterable

import torch
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from rankbook.speed.strategies.ddp import count
from rankbook.speed.strategies.strategy import Strategy, moments, storages


def prepare(model: nn.Module, lr: float, device: torch.device) -> Strategy:
    """DDP, and Adam whose two moments are kept by one rank for each parameter."""
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=lr)
    trained = _Zero1(wrapped, optimizer, device)
    trained.traffic = count(wrapped)
    return trained


def dealt(sizes: Iterable[int], ranks: int) -> list[int]:
    """Parameters for each of `ranks`: whole tensors, the largest first, each to who has least."""
    has = [0] * ranks
    for size in sorted(sizes, reverse=True):
        has[has.index(min(has))] += size
    return has


class _Zero1(Strategy):
    def held(self) -> dict[str, dict[int, int]]:
        mine = moments(self.optimizer.optim)  # the Adam of this rank's share
        return super().held() | {"state": storages(mine)}
