"""Training under Lightning's Trainer, at the same settings as the plain loop.

What the Trainer does besides is switched on one by one: checkpoints, logs, determinism.
Source: https://lightning.ai/docs/pytorch/stable/common/trainer.html
"""

import importlib
import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from rankbook.speed.batches import Batch
from rankbook.speed.moving import move
from rankbook.speed.stopwatch import Stopwatch

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

LOGS = ("lightning.pytorch", "lightning.fabric", "pytorch_lightning", "lightning_fabric")
_PLAIN = {"devices": 1, "enable_progress_bar": False, "enable_model_summary": False}


@dataclass(frozen=True)
class Fitted:
    """What a fit gave: the loss of each step, and what it cost.

    `seconds`: from the first batch to the end of the last epoch, with what the Trainer writes.
    `start_up`: seconds before that. `files`: name and bytes of each file that was written.
    `samples`, `tokens`, `computed`: as in `rankbook.speed.loop.Pass`, of all epochs.
    """

    losses: list[float]
    seconds: float
    start_up: float
    files: dict[str, int]
    samples: int
    tokens: int
    computed: int


def fit(
    model: nn.Module,
    optimizer: Optimizer | Callable[[], Optimizer],
    batches: Iterable[Batch],
    *,
    epochs: int = 1,
    checkpoint: bool = False,
    log_every: int = 0,
    deterministic: bool = False,
    precision: str | int = "32-true",
    accumulate: int = 1,
    device: torch.device | str = "cpu",
    shard: Callable[[nn.Module, "DeviceMesh"], None] | None = None,
    **trainer_settings,
) -> Fitted:
    """Train `model` under a Trainer; everything that the plain loop does not do is off.

    optimizer: made, or a function that makes it once the model is sharded. checkpoint: save model
    and optimizer after each epoch. log_every: write loss and accuracy to a CSV file every so many
    steps, 0: never. deterministic: only algorithms that give the same bits each time. precision,
    accumulate: as Lightning's Trainer takes them. shard: called with the model and the ranks, for
    a strategy that shards. trainer_settings: more of the Trainer's arguments. Files go to a folder
    that is removed. A `Stopwatch` as `batches`, or in a DataLoader, is the clock of the fit;
    otherwise it makes one. Raises ImportError without Lightning, ValueError for 16-mixed on a CPU.
    """
    device = torch.device(device)
    if device.type == "cpu" and str(precision) in ("16", "16-mixed"):
        # it would warn, and go on in another format
        raise ValueError(
            "on a CPU Lightning trains in bf16-mixed instead of 16-mixed; ask for that"
        )
    lightning = import_lightning()
    with quiet(), _same_algorithms(), tempfile.TemporaryDirectory() as folder:
        module = _module(lightning, model, optimizer, log_every, shard)
        watch = batches.dataset if isinstance(batches, DataLoader) else batches
        if not isinstance(watch, Stopwatch):
            watch = batches = Stopwatch(batches, device)
        settings = {"accelerator": device.type, "max_epochs": epochs, "precision": precision}
        settings |= {"accumulate_grad_batches": accumulate, "deterministic": deterministic}
        settings |= {"logger": _logger(lightning, folder) if log_every else False}
        settings |= {"log_every_n_steps": log_every or None, "default_root_dir": folder}
        settings |= {
            "callbacks": [_stopping(lightning, watch), *_saver(lightning, folder, checkpoint)]
        }
        settings |= {"enable_checkpointing": checkpoint}
        trainer = lightning.Trainer(**_PLAIN | settings | trainer_settings)
        model.train()  # the Trainer leaves modes as they are
        start = time.perf_counter()
        trainer.fit(module, train_dataloaders=batches)
        for made in trainer.optimizers:  # at its end a Trainer brings everything to the CPU
            move(model, made, device)
        files = _files(Path(folder))
    losses = torch.stack(module.losses).tolist()
    return Fitted(
        losses=losses,
        seconds=watch.seconds,
        start_up=cast(float, watch.start) - start,
        files=files,
        samples=watch.samples,
        tokens=watch.tokens,
        computed=watch.computed,
    )


def import_lightning() -> Any:
    """The package `lightning`, or `pytorch_lightning`, its part of the same content, which boxes
    with GPUs have more often. Raises ImportError in one sentence where both are missing."""
    for name in ("lightning", "pytorch_lightning"):
        with suppress(ImportError):
            return importlib.import_module(name)
    raise ImportError("Lightning is not installed; pip install lightning")


def _part(lightning: ModuleType, name: str) -> ModuleType:
    whole = lightning.__name__ == "lightning"
    return importlib.import_module(f"{'lightning.pytorch' if whole else lightning.__name__}.{name}")


def _module(lightning, model: nn.Module, optimizer, log_every: int, shard):
    class Classification(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.losses = model, []

        def configure_model(self) -> None:
            if shard:
                shard(self.model, self.device_mesh["data_parallel"])

        def training_step(self, batch: Batch, number: int) -> torch.Tensor:
            logits = self.model(*batch.inputs)
            loss = F.cross_entropy(logits, batch.labels)
            if log_every:  # as the original does, in every step
                right = (logits.detach().argmax(1) == batch.labels).float().mean()
                self.log("train_loss", loss, batch_size=len(batch))
                self.log("train_acc", right, on_epoch=True, on_step=False, batch_size=len(batch))
            self.losses.append(loss.detach())
            return loss

        def configure_optimizers(self) -> Optimizer:
            return optimizer if isinstance(optimizer, Optimizer) else optimizer()

    return Classification()


def _stopping(lightning, watch: Stopwatch):
    class Stop(lightning.Callback):
        def on_train_end(self, trainer, module) -> None:
            watch.stop()

    return Stop()


def _files(folder: Path) -> dict[str, int]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_size for path in found}


def _logger(lightning: ModuleType, folder: str):
    return _part(lightning, "loggers").CSVLogger(folder, name="logs")


def _saver(lightning: ModuleType, folder: str, checkpoint: bool) -> list:
    saver = _part(lightning, "callbacks").ModelCheckpoint
    return [saver(dirpath=Path(folder) / "checkpoints")] if checkpoint else []


@contextmanager
def _same_algorithms() -> Iterator[None]:
    """Undo what `deterministic` sets for the whole process."""
    before = torch.are_deterministic_algorithms_enabled()
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


@contextmanager
def quiet() -> Iterator[None]:
    """Without what Lightning prints of the machine, and its advice."""
    logs = [logging.getLogger(name) for name in LOGS]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
