"""Checkpoints of a pipeline that any number of stages and replicas can read.

Tensors are stored under the whole model's parameter names: each rank writes what it holds, once
for all replicas, and reads what it needs.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import nn
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.optim import Optimizer

from rankbook.core.agreement import agree, gather
from rankbook.training.checkpoint.random_state import random_state
from rankbook.training.checkpoint.reading import SafeReader
from rankbook.training.checkpoint.sharded import ShardedCheckpoints, read_tensors
from rankbook.training.checkpoint.state import check_parts, check_shapes, kinds, restore_rng
from rankbook.training.checkpoint.store import Saved

Kept = Mapping[str, TensorStorageMetadata]


class Stages(Protocol):
    """Whatever has parameters by the whole model's names: a `Pipeline`, or the whole model."""

    def named_parameters(self) -> Iterable[tuple[str, nn.Parameter]]: ...


def capture_stages(
    stages: Stages, optimizer: Optimizer | None = None, position: dict | None = None
) -> dict:
    """What this rank has of a model that is spread over a pipeline; on all ranks.

    optimizer: over the parameters of `stages`. position: where in the data the run is, and what
    else it has to know, in plain values; that of rank 0 counts. Tensors are the living ones.
    """
    return tensors_by_name(stages, optimizer) | {
        "kinds": kinds({"optimizer": optimizer}),
        "position": position or {},
        "rng": gather(random_state()),
    }


def tensors_by_name(stages: Stages, optimizer: Optimizer | None) -> dict:
    """What a state has of `stages`, and of an optimizer over their parameters."""
    moments = {}
    if optimizer:
        moments = {
            name: {
                key: torch.as_tensor(value)
                for key, value in optimizer.state[p].items()
                if value is not None  # of SGD without momentum, before torch 2.13
            }
            for name, p in stages.named_parameters()
        }
    return {
        "model": {name: p.detach() for name, p in stages.named_parameters()},
        "optimizer": {"state": moments} if optimizer else None,
    }


class PipelineSaved(Saved):
    """A good checkpoint of a pipeline; `state` has neither tensors nor shapes of other stages."""

    def load_into(
        self,
        model: Stages,
        optimizer: Optimizer | None = None,
        scheduler: None = None,
        scaler: None = None,
    ) -> dict:
        """As for every `Saved`, of `capture_stages`: fill what this rank has of the model.

        model: a pipeline, or the whole model. The number of stages, ranks and replicas may differ
        from those that saved.
        """
        kept: Kept = agree(lambda: self._kept_for(model, {"optimizer": optimizer}))
        fill_stages(self.path, kept, {"": (model, optimizer)})
        if optimizer:
            restore_rng(self.state)
        return self.state["position"]

    def _kept_for(self, stages: Stages, parts: Mapping[str, Optimizer | None]) -> Kept:
        """The table of contents; ValueError if it does not suit this rank's stages, or `parts`."""
        check_parts(self.state, parts)
        kept: Any = SafeReader(self.path).read_metadata().state_dict_metadata
        own = {name: tuple(p.shape) for name, p in stages.named_parameters()}
        there = {
            name.removeprefix("model."): tuple(about.size)
            for name, about in kept.items()
            if name.startswith("model.")
        }
        check_shapes(own, there, part=True)
        return kept


class PipelineCheckpoints(ShardedCheckpoints):
    """Checkpoints of a pipeline, in a folder each, of which every rank writes its part.

    What is saved is that of `capture_stages`. It is on the disk when `save` returns.
    """

    kind = PipelineSaved

    def save(self, step: int, state: dict) -> None:
        """As for every `Store`."""
        super().save(step, state)
        self.wait()

    def newest(self) -> PipelineSaved | None:
        """As for every `Store`."""
        return cast(PipelineSaved | None, super().newest())


def fill_stages(
    path: Path, kept: Kept, wanted: Mapping[str, tuple[Stages, Optimizer | None]]
) -> None:
    """Fill stages and their optimizers from the checkpoint at `path`, in one pass; on all ranks.

    kept: its table of contents. wanted: by what the names of their tensors begin with in it.
    Raises CheckpointError on all ranks.
    """
    rooms, moments = {}, {}
    for prefix, (stages, optimizer) in wanted.items():
        rooms |= {f"{prefix}model.{name}": p.detach() for name, p in stages.named_parameters()}
        if optimizer:
            moments[prefix] = _moments_for(kept, stages, prefix)
            for name, of_one in moments[prefix].items():
                rooms |= {f"{prefix}optimizer.{name}.{key}": of_one[key] for key in of_one}
    read_tensors(rooms, path)
    for prefix, (stages, optimizer) in wanted.items():
        if optimizer:
            _fill_optimizer(optimizer, stages, moments[prefix])


def _moments_for(kept: Kept, stages: Stages, prefix: str) -> dict[str, dict[str, torch.Tensor]]:
    """Room for an optimizer's tensors of this rank's parameters, where those are."""
    moments = {}
    for name, parameter in stages.named_parameters():
        start = f"{prefix}optimizer.{name}."
        moments[name] = {
            key.removeprefix(start): _room(about, parameter)
            for key, about in kept.items()
            if key.startswith(start)
        }
    return moments


def _room(about: TensorStorageMetadata, like: nn.Parameter) -> torch.Tensor:
    if about.size == like.shape:
        return torch.zeros_like(like, requires_grad=False)
    return torch.empty(about.size, dtype=about.properties.dtype)  # a count of steps


def _fill_optimizer(optimizer: Optimizer, stages: Stages, moments: dict) -> None:
    """Give `optimizer`, over the parameters of `stages`, the `moments` by name."""
    names = {id(parameter): name for name, parameter in stages.named_parameters()}
    every = [p for group in optimizer.param_groups for p in group["params"]]
    state = {index: moments[names[id(parameter)]] for index, parameter in enumerate(every)}
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
