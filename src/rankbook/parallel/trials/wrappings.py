"""Ways to make a pipeline's stage one of several replicas: the data-parallel wrappings.

Each is one object, in `KNOWN`. What they do to a gradient under which schedule,
`rankbook.parallel.trials.try_wrapping` finds out. Sources:
https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html,
https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from rankbook.models.transformer import TransformerLM


@dataclass(frozen=True)
class Wrapping:
    """A data-parallel wrapping of a stage.

    apply: what it does to a stage, given the replicas on a 1-D mesh; returns what the pipeline is
    to hold. average_after_step: whether the gradients have to be averaged, by `average_gradients`,
    after each step, as the wrapping itself does not.
    """

    name: str
    apply: Callable[[TransformerLM, DeviceMesh], nn.Module]
    average_after_step: bool = False


def _bare(module: TransformerLM, mesh: DeviceMesh) -> nn.Module:
    return module


def _fully_shard(module: TransformerLM, mesh: DeviceMesh) -> nn.Module:
    fully_shard(module, mesh=mesh)
    return module


def _fully_shard_each_layer(module: TransformerLM, mesh: DeviceMesh) -> nn.Module:
    for layer in module.layers.values():
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    return module


def _replicate(module: TransformerLM, mesh: DeviceMesh) -> nn.Module:
    # torch 2.13 has no public path to the one that its pipelines know
    from torch.distributed._composable.replicate_with_fsdp import replicate

    return cast(nn.Module, replicate(module, mesh=mesh))  # the module itself, of a class of both


def _ddp(**options: Any) -> Callable[[TransformerLM, DeviceMesh], nn.Module]:
    def apply(module: TransformerLM, mesh: DeviceMesh) -> nn.Module:
        return DistributedDataParallel(module, process_group=mesh.get_group(), **options)

    return apply


KNOWN = {
    wrapping.name: wrapping
    for wrapping in (
        Wrapping("all_reduce after step", _bare, average_after_step=True),
        Wrapping("fully_shard", _fully_shard),
        Wrapping("fully_shard each layer", _fully_shard_each_layer),
        Wrapping("replicate", _replicate),
        Wrapping("DDP", _ddp()),
        Wrapping("DDP find_unused", _ddp(find_unused_parameters=True)),
        Wrapping("DDP static_graph", _ddp(static_graph=True)),
    )
}
WRAPPINGS = tuple(KNOWN)


def find_wrapping(name: str) -> Wrapping:
    """The wrapping called `name`, one of `WRAPPINGS`. Raises ValueError for another."""
    if name not in KNOWN:
        raise ValueError(f"wrapping {name!r} is unknown; use {', '.join(WRAPPINGS)}")
    return KNOWN[name]


def wrap(module: TransformerLM, wrapping: str, mesh: DeviceMesh) -> nn.Module:
    """Make the stage `module` one of the replicas on `mesh`, `mesh["dp"]`, in place or around it.

    wrapping: one of `WRAPPINGS`. The first leaves the module alone: `average_gradients` is to be
    called after each step. Raises ValueError for a wrapping that is not known.
    """
    return find_wrapping(wrapping).apply(module, mesh)
