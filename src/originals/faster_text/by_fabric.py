"""The text's last program: the loop with Fabric, and with dropout in one step of each epoch."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from originals.faster_text.common import (
    EPOCHS,
    RATE,
    SEED,
    Accuracies,
    count,
    loaders,
    meter,
    outputs_of,
    tested,
)
from rankbook.speed.lightning_runner import import_lightning
from rankbook.speed.reviews import Reviews


def make_fabric() -> Any:
    """The text's own: four GPUs, DeepSpeed's second stage, 16 bits. Raises what Fabric raises."""
    fabric = import_lightning().Fabric(
        accelerator="cuda", devices=4, strategy="deepspeed_stage_2", precision="16-mixed"
    )
    fabric.launch()
    return fabric


def fabric_program(
    make_model: Callable[[], nn.Module],
    splits: Mapping[str, Reviews],
    *,
    fabric: Callable[[], Any] = make_fabric,
    epochs: int = EPOCHS,
    workers: int = 2,
) -> Accuracies:
    """Train as the text's last listing does, and test; `fabric` makes a launched Fabric."""
    torch.manual_seed(SEED)
    data = loaders(splits, workers)
    lightning = fabric()
    model = make_model()
    model, optimizer = lightning.setup(model, torch.optim.Adam(model.parameters(), lr=RATE))
    train, valid, test = lightning.setup_dataloaders(*data.values())
    training, validation = [], []
    for _ in range(epochs):
        training.append(train_epoch(model, optimizer, train, lightning))
        validation.append(tested(model, valid, lightning.device, move=False))
    return Accuracies(training, validation, tested(model, test, lightning.device, move=False))


def train_epoch(model: nn.Module, optimizer: Optimizer, batches: Iterable, fabric: Any) -> float:
    """One epoch, as it is printed: nothing brings the model back from `eval` within it."""
    seen = meter(fabric.device)
    model.train()
    for batch in batches:
        outputs = outputs_of(model, batch)
        optimizer.zero_grad()
        fabric.backward(outputs["loss"])
        optimizer.step()
        model.eval()
        count(seen, outputs, batch)
    return seen.compute().item()
