"""Fabric: Lightning's strategies for a loop that stays one's own."""

from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from rankbook.speed.lightning_runner import import_lightning, quiet
from rankbook.speed.strategies.strategy import Strategy


def make_fabric(device: torch.device | str = "cpu", precision: str = "32-true") -> Any:
    """A launched `Fabric` with DDP on all ranks of the group; without one, on one device.

    precision: as Lightning names formats. Raises ImportError without Lightning. Source:
    https://lightning.ai/docs/fabric/stable/api/fabric_methods.html
    """
    lightning = import_lightning()
    settings: dict[str, Any] = {"devices": 1}
    if dist.is_initialized():
        from lightning.fabric.strategies import DDPStrategy

        from rankbook.speed.strategies.environment import on_group

        settings["devices"] = dist.get_world_size()
        settings["strategy"] = on_group(DDPStrategy, gradient_as_bucket_view=True)
    with quiet():
        accelerator = torch.device(device).type
        fabric = lightning.Fabric(accelerator=accelerator, precision=precision, **settings)
        fabric.launch()
    return fabric


def prepare(model: nn.Module, lr: float, device: torch.device) -> Strategy:
    """Fabric's DDP and Adam, in the loop of the other strategies."""
    fabric = make_fabric(device)
    wrapped, optimizer = fabric.setup(model, torch.optim.Adam(model.parameters(), lr=lr))
    return _OnFabric(fabric, wrapped, optimizer, device)


class _OnFabric(Strategy):
    def __init__(self, fabric: Any, model: Any, optimizer: Any, device: torch.device):
        super().__init__(model, optimizer, device)
        self.fabric = fabric

    def no_sync(self) -> AbstractContextManager:
        return self.fabric.no_backward_sync(self.model)

    def backward(self, loss: torch.Tensor) -> None:
        self.fabric.backward(loss)
