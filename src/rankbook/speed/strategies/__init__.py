"""One model, trained by many ranks together: a file for each way to share the work and the memory.

Every way does the same arithmetic, so each one's losses are those of one process on the same global
batch. What differs is which rank keeps what, and when they talk. `registry` lists them.
"""

import torch
from torch import nn

from rankbook.speed.strategies.registry import REGISTRY, entry
from rankbook.speed.strategies.strategy import Strategy, Traffic

STRATEGIES = {name: each.about for name, each in REGISTRY.items()}

__all__ = ["STRATEGIES", "Strategy", "Traffic", "prepare"]


def prepare(
    strategy: str,
    model: nn.Module,
    lr: float = 5e-5,
    device: torch.device | str = "cpu",
    **options,
) -> Strategy:
    """Hand `model` over to a strategy, with Adam at the rate `lr`; on all ranks of the group.

    strategy: one of STRATEGIES. model: a `rankbook.models.classifier.Classifier` with the same
    values on every rank; it is wrapped in place, and moved to `device`. options: what `prepare` in
    the strategy's own file takes. Raises ValueError for an unknown strategy, and ImportError where
    the package that it needs is not installed.
    """
    made = entry(strategy).prepare(model.to(device), lr, torch.device(device), **options)
    made.name = strategy
    return made
