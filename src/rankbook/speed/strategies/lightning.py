"""Lightning's Trainer on the ranks of the existing group, and what Lightning refuses here."""

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader

from rankbook.speed.batches import Batch
from rankbook.speed.lightning_runner import Fitted, fit, import_lightning, quiet
from rankbook.speed.stopwatch import Stopwatch
from rankbook.speed.strategies.fsdp2 import shard

# What the original asks for, and today's names of it; both of the Trainer and of Fabric.
_ASKED = (
    {"strategy": "ddp"},
    {"strategy": "ddp_sharded"},
    {"strategy": "fsdp"},
    {"strategy": "deepspeed_stage_2"},
    {"precision": "fp16"},
)


@dataclass(frozen=True)
class Refusal:
    """What was `asked` of `tool`, "Trainer" or "Fabric", and its `sentence`; "": it was made."""

    tool: str
    asked: str
    sentence: str


def fit_on_ranks(
    model: nn.Module,
    batches: Sequence[Batch],
    lr: float = 5e-5,
    device: torch.device | str = "cpu",
    strategy: str = "ddp",
    **settings,
) -> Fitted:
    """Train `model` once over global `batches` under a Trainer; on all ranks of the group.

    strategy: "ddp", or "fsdp2": Lightning's ModelParallelStrategy. settings: what `fit` takes.
    Each rank takes its share of each batch; the losses are those of the global batches, the same
    on every rank. Raises ValueError for another strategy, ImportError without Lightning.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chosen = _strategy(strategy, ranks)  # also imports Lightning, or says that it is missing
    shares = [batch.share(rank, ranks) for batch in batches]
    fitted = fit(
        model,
        lambda: torch.optim.Adam(model.parameters(), lr=lr),
        DataLoader(Stopwatch(shares, device), batch_size=None),
        device=device,
        devices=ranks,
        strategy=chosen,
        shard=shard if strategy == "fsdp2" else None,
        use_distributed_sampler=False,
        **settings,
    )
    losses = torch.tensor(fitted.losses, device=device)
    dist.all_reduce(losses)
    return dataclasses.replace(fitted, losses=(losses / ranks).tolist())


def _strategy(name: str, ranks: int) -> Any:
    if name not in ("ddp", "fsdp2"):
        raise ValueError(f"strategy {name!r} of the Trainer is unknown here; use ddp or fsdp2")
    import_lightning()
    from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy

    from rankbook.speed.strategies.environment import on_group

    if name == "ddp":
        return on_group(DDPStrategy, gradient_as_bucket_view=True)
    return on_group(ModelParallelStrategy, data_parallel_size=ranks, tensor_parallel_size=1)


def refusals(device: torch.device | str = "cpu") -> list[Refusal]:
    """Ask the Trainer and Fabric for each of a list of settings; nothing is trained.

    In any process, on one device: nobody else is asked for.
    """
    device = torch.device(device)
    if device.type == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # DeepSpeed would warn that it found no GPU
    lightning = import_lightning()

    found = []
    for settings in _ASKED:
        asked = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        for tool in (lightning.Trainer, lightning.Fabric):
            sentence = ""
            try:
                with quiet():
                    made = tool(accelerator=device.type, devices=1, **settings)
                    if device.type == "cpu" and "deepspeed" in asked:
                        _start(made, lightning)  # only then does it look at the device
            except Exception as error:  # whatever it raises is what is asked for
                sentence = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            found.append(Refusal(tool.__name__, asked, sentence))
    return found


def _start(made: Any, lightning: Any) -> None:
    if isinstance(made, lightning.Trainer):
        from lightning.pytorch.demos.boring_classes import BoringModel

        made.fit(BoringModel())
    else:
        made.launch()
