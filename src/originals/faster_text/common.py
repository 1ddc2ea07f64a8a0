"""What the text's three programs share: its data, its model's manners, its way to test."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from rankbook.models.classifier import Classifier
from rankbook.speed.reviews import Reviews

SEED, RATE, BATCH, EPOCHS = 123, 5e-5, 12, 3
INPUTS = ("input_ids", "attention_mask", "label")


@dataclass(frozen=True)
class Accuracies:
    """After each epoch of `training` (counted while it trains) and `validation`; and on the `test`
    reviews. All from 0 to 1, of whole batches only."""

    training: list[float]
    validation: list[float]
    test: float


class WithLoss(nn.Module):
    """A `Classifier` that takes and gives what transformers' models do: a loss, too."""

    def __init__(self, model: Classifier):
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict:
        """Of ids and mask (rows, length), labels (rows,): "loss" (), "logits" (rows, classes)."""
        logits = self.model(input_ids, attention_mask.bool())
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def padded(reviews: Reviews) -> list[dict[str, Tensor]]:
    """All reviews, each as long as the longest of the split: its ids, its mask, its label."""
    texts = [reviews.text(i).long() for i in range(len(reviews))]
    ids = pad_sequence(texts, batch_first=True)  # 0 is [PAD]
    mask = (torch.arange(ids.shape[1]) < reviews.lengths[:, None]).long()
    columns = zip(ids, mask, reviews.labels, strict=True)
    return [dict(zip(INPUTS, column, strict=True)) for column in columns]


def loaders(splits: Mapping[str, Reviews], workers: int) -> dict[str, DataLoader]:
    """The loaders of "train", "validation" and "test"; all three drop what is left."""
    return {
        name: DataLoader(
            cast(Dataset, padded(splits[name])),
            batch_size=BATCH,
            shuffle=name == "train",
            num_workers=workers,
            drop_last=True,
        )
        for name in ("train", "validation", "test")
    }


def meter(device: Any) -> Any:
    """A counter of right answers on `device`. Raises ImportError without torchmetrics."""
    import torchmetrics

    return torchmetrics.Accuracy(task="multiclass", num_classes=2).to(device)


def moved(batch: dict[str, Tensor], device: Any) -> dict[str, Tensor]:
    """The batch on `device`."""
    return {name: batch[name].to(device) for name in INPUTS}


def outputs_of(model: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The model's loss and logits."""
    return model(batch["input_ids"], attention_mask=batch["attention_mask"], labels=batch["label"])


@torch.no_grad()
def count(seen: Any, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> None:
    """Add a batch's right answers to `seen`."""
    seen.update(outputs["logits"].argmax(1), batch["label"])


@torch.no_grad()
def tested(model: nn.Module, batches: Iterable, device: Any, move: bool = True) -> float:
    """The accuracy over `batches`, in evaluation mode, in which the model stays."""
    model.eval()
    seen = meter(device)
    for batch in batches:
        batch = moved(batch, device) if move else batch
        count(seen, outputs_of(model, batch), batch)
    return seen.compute().item()
