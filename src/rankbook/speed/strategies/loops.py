"""The plain loop, and the same loop with Fabric: all that differs is what Fabric needs.

Losses stay on the device: a loop that asks for each as a number makes Python wait in every step.
"""

from collections.abc import Iterable

from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from rankbook.speed.batches import Batch


def plain(model: nn.Module, optimizer: Optimizer, batches: Iterable[Batch], device) -> list[Tensor]:
    """Train once over `batches` on one device; the loss of each, left there."""
    model.to(device)
    losses = []
    for batch in batches:
        batch = batch.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(*batch.inputs), batch.labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def on_fabric(model: nn.Module, optimizer: Optimizer, batches: DataLoader, fabric) -> list[Tensor]:
    """Train once over this rank's `batches`, on what `make_fabric` gave; the loss of each.

    Lightning's types say less than what it returns: a single model, a single loader.
    """
    model, optimizer = fabric.setup(model, optimizer)
    batches = fabric.setup_dataloaders(batches, use_distributed_sampler=False)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(*batch.inputs), batch.labels)
        fabric.backward(loss)
        optimizer.step()
        losses.append(loss.detach())
    return losses
