"""What accelerate and Lightning do with uneven inputs; torchrun starts it for a test.

python -m torch.distributed.run --nproc-per-node 2 join_frameworks.py accelerate|lightning FOLDER
"""

import importlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from rankbook.training import equal_steps
from tests.waiting import SOON, until

HANGS = "join_uneven_inputs", "iterable"
TIMEOUT = 20.0  # seconds after which a rank that waits in one of those is told so


def main() -> None:
    """All that works first; last what hangs, which breaks the group."""
    which, folder = sys.argv[1:]
    torch.set_num_threads(1)
    importlib.import_module(which)  # so that no rank waits for another's import
    dist.init_process_group("gloo", timeout=timedelta(seconds=SOON))
    rank = dist.get_rank()
    found = {}
    for name, work in (with_accelerate if which == "accelerate" else with_lightning)().items():
        if name in HANGS:
            dist.barrier()  # the clock begins when both are here
            dist.distributed_c10d._set_pg_timeout(timedelta(seconds=TIMEOUT))
        try:
            found[name] = work()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    Path(folder, f"{which}-{rank}.json").write_text(json.dumps(found))
    until(Path(folder, f"{which}-{1 - rank}.json").exists)  # one that goes away is not waited for
    os._exit(0)


def with_accelerate() -> dict[str, Callable]:
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    def train(even: bool, join: Callable) -> dict:
        config = DataLoaderConfiguration(even_batches=even)
        accelerator = Accelerator(cpu=True, dataloader_config=config)
        model = nn.Linear(1, 1)
        samples = TensorDataset(torch.arange(11.0)[:, None])
        model, optimizer, loader = accelerator.prepare(
            model, torch.optim.SGD(model.parameters(), lr=1e-3), DataLoader(samples, batch_size=1)
        )
        taken = []
        with join(accelerator, model):
            for (inputs,) in loader:
                optimizer.zero_grad()
                accelerator.backward(model(inputs).pow(2).mean())
                optimizer.step()
                taken.append(int(inputs))
        return {"taken": taken, "weight": model.module.weight.item()}

    def own_join(accelerator: Accelerator, model: nn.Module):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with accelerator.join_uneven_inputs([model], even_batches=False):
                pass
        warned.extend(str(warning.message) for warning in caught)
        return accelerator.join_uneven_inputs([model], even_batches=False)

    warned = []
    return {
        "even batches": lambda: train(True, lambda accelerator, model: accelerator.autocast()),
        "torch's Join": lambda: train(False, lambda accelerator, model: Join([model])),
        "join_uneven_inputs": lambda: train(False, own_join),
        "warned": lambda: warned,
    }


def with_lightning() -> dict[str, Callable]:
    import lightning as L
    from lightning.pytorch.strategies import DDPStrategy

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer, self.taken = nn.Linear(1, 1), []

        def training_step(self, batch, number):
            scale = 1.0
            if hasattr(batch, "scale"):  # a Turn of equal_steps
                batch, scale, _ = batch
            self.taken.append([int(batch[0]), scale])
            return self.layer(batch[0].reshape(-1, 1)).pow(2).mean() * scale

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    def uneven() -> Iterator[list[torch.Tensor]]:
        rank = dist.get_rank()
        return ([torch.tensor([10.0 * rank + number])] for number in range(5 + rank))

    class Lines(IterableDataset):
        def __iter__(self):
            return uneven()

    class EqualStepsLoader:
        def __iter__(self):
            return equal_steps(uneven())

    def train(loader) -> dict:
        module = Module()
        off = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
        trainer = L.Trainer(
            accelerator="cpu", devices=2, max_epochs=1, **dict.fromkeys(off, False),
            strategy=DDPStrategy(process_group_backend="gloo", timeout=timedelta(seconds=SOON)),
        )  # fmt: skip
        try:
            trainer.fit(module, loader)
        except RuntimeError as error:
            return {"taken": module.taken, "error": str(error)}
        return {"taken": module.taken, "weight": module.layer.weight.item()}

    samples = TensorDataset(torch.arange(11.0)[:, None])
    return {
        "map-style": lambda: train(DataLoader(samples, batch_size=1)),
        "equal_steps": lambda: train(EqualStepsLoader()),
        "iterable": lambda: train(DataLoader(Lines(), batch_size=None)),
    }


if __name__ == "__main__":
    main()
