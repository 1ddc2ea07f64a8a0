"""Checkpoints of replicas that train alone between meetings: what they agreed on, and each's own.

The model in such a checkpoint is what all agreed on, as in any other. Beside it stand the outer
optimizer's tensors, and for each replica its parameters and its inner optimizer's moments.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from rankbook.core.agreement import agree
from rankbook.training.checkpoint.pipeline import (
    PipelineSaved,
    Stages,
    capture_stages,
    fill_optimizer,
    moments_for,
)
from rankbook.training.checkpoint.reading import SafeReader
from rankbook.training.checkpoint.sharded import read_tensors


class Agreed:
    """The parameters that all replicas agreed on, by the names of those that each trains.

    agreed: by the parameter that stands for it in `stages`.
    """

    def __init__(self, stages: Stages, agreed: Mapping[nn.Parameter, nn.Parameter]):
        self.stages, self.agreed = stages, agreed

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """As of any `Stages`."""
        for name, parameter in self.stages.named_parameters():
            yield name, self.agreed[parameter]


def capture_replicas(
    stages: Stages, inner: Optimizer, agreed: Agreed, outer: Optimizer, replica: int, position: dict
) -> dict:
    """What this rank has of a model whose replicas train alone; on all ranks. For `save`.

    inner, outer: over the parameters of `stages`, and over the agreed ones. replica: which one this
    rank is of. position: as of `capture_stages`, with "replicas", how many there are.
    """
    state = capture_stages(agreed, position=position)
    own = f"replica.{replica}"
    state["model"] |= {f"{own}.model.{n}": p.detach() for n, p in stages.named_parameters()}
    state["model"] |= _moments(f"{own}.optimizer", stages, inner)
    state["model"] |= _moments("outer", agreed, outer)
    return state


def load_replicas(
    saved: PipelineSaved,
    stages: Stages,
    inner: Optimizer,
    agreed: Agreed,
    outer: Optimizer,
    replica: int,
) -> dict:
    """Go on from what `capture_replicas` gave; on all ranks. Returns the position.

    The number of stages may differ, and that of replicas: one that was not there begins with what
    all agreed on, and with the moments of one that was; what one did that is there no more, since
    the last meeting, is lost.
    """
    position = saved.load_into(agreed)
    kept: Any = agree(lambda: SafeReader(saved.path).read_metadata().state_dict_metadata)
    there = position["replicas"]
    rooms: dict[str, Any] = {}
    if replica < there:
        own = stages.named_parameters()
        rooms = {f"model.replica.{replica}.model.{name}": p.detach() for name, p in own}
    else:
        _begin_with(agreed)
    filled = (
        (inner, stages, f"model.replica.{replica % there}.optimizer"),
        (outer, agreed, "model.outer"),
    )
    found = [dict(moments_for(kept, of, under)) for _, of, under in filled]
    for moments, (_, _, under) in zip(found, filled, strict=True):
        for name, of_one in moments.items():
            rooms |= {f"{under}.{name}.{key}": room for key, room in of_one.items()}
    read_tensors(rooms, saved.path)
    for moments, (optimizer, of, _) in zip(found, filled, strict=True):
        fill_optimizer(optimizer, of, moments)
    return position


def _moments(under: str, stages: Stages, optimizer: Optimizer) -> dict[str, torch.Tensor]:
    return {
        f"{under}.{name}.{key}": torch.as_tensor(value)
        for name, p in stages.named_parameters()
        for key, value in optimizer.state[p].items()
        if value is not None  # SGD without momentum, or before its first step
    }


@torch.no_grad()
def _begin_with(agreed: Agreed) -> None:
    for parameter, value in agreed.agreed.items():
        parameter.copy_(value)
