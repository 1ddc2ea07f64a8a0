"""The text's first program: a plain loop, tested after its last epoch."""

from collections.abc import Callable, Iterable, Mapping

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
    moved,
    outputs_of,
    tested,
)
from rankbook.speed.reviews import Reviews


def plain_program(
    make_model: Callable[[], nn.Module],
    splits: Mapping[str, Reviews],
    *,
    device: torch.device | str = "cpu",
    epochs: int = EPOCHS,
    workers: int = 1,
) -> Accuracies:
    """Train as the text's first listing does, and test; leaves the process's seed changed."""
    torch.manual_seed(SEED)
    data = loaders(splits, workers)
    model = make_model().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    training, validation = [], []
    for _ in range(epochs):
        training.append(train_epoch(model, optimizer, data["train"], device))
        validation.append(tested(model, data["validation"], device))
    return Accuracies(training, validation, tested(model, data["test"], device))


def train_epoch(model: nn.Module, optimizer: Optimizer, batches: Iterable, device) -> float:
    """One epoch; the accuracy of the batches as they went by. Modes change in every step."""
    seen = meter(device)
    for batch in batches:
        model.train()
        batch = moved(batch, device)
        outputs = outputs_of(model, batch)
        optimizer.zero_grad()
        outputs["loss"].backward()
        optimizer.step()
        model.eval()
        count(seen, outputs, batch)
    return seen.compute().item()
