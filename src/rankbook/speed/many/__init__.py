"""One model, trained by many ranks together: a file for each way to share the work and the memory.

Every way does the same arithmetic, so each one's losses are those of one process on the same global
batch. What differs is which rank keeps what, and when they talk.
"""

import importlib

import torch
from torch import nn

from rankbook.speed.many.on_ranks import OnRanks, Traffic

# name: module, what `prepare` of the module is told, what it does
_WAYS = {
    "alone": ("alone", {}, "one process, the whole batch: what all others are compared with"),
    "ddp": ("ddp", {}, "all on every rank; gradients are averaged while backward still runs"),
    "ddp-bf16": ("ddp", {"compress": "bf16"}, "the same, gradients sent as bfloat16"),
    "zero1": ("zero1", {}, "DDP, and each rank keeps the optimizer's state of its share"),
    "fsdp2": ("fsdp2", {}, "parameters, gradients and state in shards; layers gathered for use"),
    "deepspeed1": ("deepspeed", {"stage": 1}, "DeepSpeed, the optimizer's state in shards"),
    "deepspeed2": ("deepspeed", {"stage": 2}, "and the gradients"),
    "deepspeed3": ("deepspeed", {"stage": 3}, "and the parameters"),
    "fabric": ("fabric", {}, "DDP as Lightning's Fabric sets it up"),
}
STRATEGIES = {name: about for name, (_, _, about) in _WAYS.items()}

__all__ = ["STRATEGIES", "OnRanks", "Traffic", "prepare"]


def prepare(
    strategy: str,
    model: nn.Module,
    lr: float = 5e-5,
    device: torch.device | str = "cpu",
    **options,
) -> OnRanks:
    """Hand `model` over to a strategy, with Adam at the rate `lr`; on all ranks of the group.

    strategy: one of STRATEGIES. model: a `rankbook.models.classifier.Classifier` with the same
    values on every rank; it is wrapped in place, and moved to `device`. options: what `prepare` in
    the strategy's own file takes. Raises ValueError for an unknown strategy, and ImportError where
    the package that it needs is not installed.
    """
    if strategy not in _WAYS:
        raise ValueError(f"strategy {strategy!r} is unknown; use {', '.join(_WAYS)}")
    module, settings, _ = _WAYS[strategy]
    made = importlib.import_module(f"{__name__}.{module}").prepare(
        model.to(device), lr, torch.device(device), **settings | options
    )
    made.strategy = strategy
    return made
