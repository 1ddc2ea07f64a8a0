"""FSDP2: every parameter cut over the ranks, whole only while its layer computes.

Source: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

from rankbook.speed.strategies.strategy import Strategy


def prepare(
    model: nn.Module,
    lr: float,
    device: torch.device,
    reshard: bool = True,
    offload: bool = False,
) -> Strategy:
    """Shard each layer, then what is left; Adam is made after that, of the shards.

    reshard: whether a layer's parameters are let go of after its forward pass, and fetched again
    for the backward pass. offload: whether the shards, and with them Adam's work, lie on the host.
    """
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    settings: dict = {} if reshard else {"reshard_after_forward": False}  # the root stays anyway
    if offload:  # there is nothing to pin memory for where there is no GPU
        settings["offload_policy"] = CPUOffloadPolicy(pin_memory=device.type == "cuda")
    shard(model, mesh, **settings)
    return _Sharded(model, torch.optim.Adam(model.parameters(), lr=lr), device)


def shard(model: nn.Module, mesh: DeviceMesh, **settings) -> None:
    """Cut a Classifier's parameters over `mesh`, in place; a layer is gathered at a time."""
    for layer in model.get_submodule("distilbert.transformer.layer").children():
        fully_shard(layer, mesh=mesh, **settings)
    fully_shard(model, mesh=mesh, **settings)


class _Sharded(Strategy):
    @contextmanager
    def no_sync(self) -> Iterator[None]:
        self.model.set_requires_gradient_sync(False)  # gradients stay whole on every rank
        try:
            yield
        finally:
            self.model.set_requires_gradient_sync(True)
