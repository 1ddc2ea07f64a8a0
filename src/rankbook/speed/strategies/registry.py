"""The strategies by name: where each is, what it does, and what a rank keeps under it.

A new one is a file with a `prepare`, and an entry here. The rest follows from the entry: the
options of `benchmarks.ladder`, the formula of the memory, and the proof that its losses are those
of one process.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from rankbook.speed.strategies.strategy import Strategy


@dataclass(frozen=True)
class Entry:
    """One strategy, before its file and its libraries are loaded.

    file: of this folder; `settings`: what its `prepare` is told besides model, rate and device.
    about: what it does, in a line. zero: the stage of ZeRO by which what a rank keeps from step to
    step is cut. state: bytes of optimizer state for each parameter; 8 are Adam's two moments in 32
    bits. microbatches: whether a step may take its batch in several parts.
    """

    file: str
    about: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    zero: int = 0
    state: int = 8
    microbatches: bool = True

    def prepare(self, model: nn.Module, lr: float, device: torch.device, **options) -> Strategy:
        """Load the file, and let it wrap `model`. Raises ImportError without its library."""
        file = importlib.import_module(f"rankbook.speed.strategies.{self.file}")
        return file.prepare(model, lr, device, **{**self.settings, **options})


# DeepSpeed updates a copy of its shard, made for training in 16 bits, in 32 bits as well. Its
# stage 1 counts gradients as stage 2 does: those of other ranks' shards are gone after backward.
_DEEPSPEED = {"state": 12, "microbatches": False}

REGISTRY = {
    "alone": Entry("alone", "one process, the whole batch: what all others are compared with"),
    "ddp": Entry("ddp", "all on every rank; gradients are averaged while backward still runs"),
    "ddp-bf16": Entry("ddp", "the same, gradients sent as bfloat16", {"compress": "bf16"}),
    "zero1": Entry(
        "zero1",
        "DDP, and each rank keeps the optimizer's state of its share",
        zero=1,
    ),
    "fsdp2": Entry(
        "fsdp2",
        "parameters, gradients and state in shards; layers gathered for use",
        zero=3,
    ),
    "deepspeed1": Entry(
        "deepspeed",
        "DeepSpeed, the optimizer's state in shards",
        {"stage": 1},
        zero=2,
        **_DEEPSPEED,
    ),
    "deepspeed2": Entry(
        "deepspeed",
        "and the gradients",
        {"stage": 2},
        zero=2,
        **_DEEPSPEED,
    ),
    "deepspeed3": Entry(
        "deepspeed",
        "and the parameters",
        {"stage": 3},
        zero=3,
        **_DEEPSPEED,
    ),
    "fabric": Entry("fabric", "DDP as Lightning's Fabric sets it up"),
}


def entry(strategy: str) -> Entry:
    """The entry of that name. Raises ValueError for an unknown one."""
    if strategy not in REGISTRY:
        raise ValueError(f"strategy {strategy!r} is unknown; use {', '.join(REGISTRY)}")
    return REGISTRY[strategy]
