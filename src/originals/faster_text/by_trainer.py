"""The text's second program: Lightning's Trainer, which keeps, logs, and tests the best epoch."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from originals.faster_text.common import (
    EPOCHS,
    RATE,
    SEED,
    Accuracies,
    loaders,
    meter,
    outputs_of,
)
from rankbook.speed.lightning_runner import import_lightning
from rankbook.speed.reviews import Reviews


def trainer_program(
    make_model: Callable[[], nn.Module],
    splits: Mapping[str, Reviews],
    folder: str | Path = "logs/",
    *,
    workers: int = 1,
    **settings: Any,
) -> Accuracies:
    """Train as the text's second listing does, and test the epoch that validated best.

    folder: of the log and the checkpoints. settings: of the Trainer, in place of the text's.
    `deterministic` holds for the whole process, from then on.
    """
    lightning = import_lightning()
    from lightning.pytorch.callbacks import ModelCheckpoint
    from lightning.pytorch.loggers import CSVLogger

    torch.manual_seed(SEED)
    data = loaders(splits, workers)
    module = _module(lightning, make_model())
    its = {"max_epochs": EPOCHS, "accelerator": "gpu", "devices": 1, "deterministic": True}
    its |= {"callbacks": [ModelCheckpoint(save_top_k=1, mode="max", monitor="val_acc")]}
    its |= {"logger": CSVLogger(save_dir=folder, name="my-model"), "log_every_n_steps": 10}
    trainer = lightning.Trainer(**its | settings)
    trainer.fit(module, data["train"], data["validation"])
    (tested,) = trainer.test(module, dataloaders=data["test"], ckpt_path="best")
    return Accuracies(module.training_accuracies, module.validation_accuracies, tested["accuracy"])


def _module(lightning: Any, model: nn.Module) -> Any:
    class Classification(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model
            self.train_acc, self.val_acc, self.test_acc = (meter("cpu") for _ in range(3))
            self.training_accuracies, self.validation_accuracies = [], []

        def training_step(self, batch: dict, number: int) -> torch.Tensor:
            outputs = outputs_of(self.model, batch)
            self.log("train_loss", outputs["loss"])
            with torch.no_grad():
                self.train_acc(outputs["logits"].argmax(1), batch["label"])
                self.log("train_acc", self.train_acc, on_epoch=True, on_step=False)
            return outputs["loss"]

        def validation_step(self, batch: dict, number: int) -> None:
            outputs = outputs_of(self.model, batch)
            self.log("val_loss", outputs["loss"], prog_bar=True)
            self.val_acc(outputs["logits"].argmax(1), batch["label"])
            self.log("val_acc", self.val_acc, prog_bar=True)

        def test_step(self, batch: dict, number: int) -> None:
            self.test_acc(outputs_of(self.model, batch)["logits"].argmax(1), batch["label"])
            self.log("accuracy", self.test_acc, prog_bar=True)

        def on_train_epoch_end(self) -> None:  # the book's: what the log has
            known = self.trainer.callback_metrics
            self.training_accuracies.append(self.train_acc.compute().item())
            self.validation_accuracies.append(known["val_acc"].item())

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.trainer.model.parameters(), lr=RATE)

    return Classification()
