"""What the loops have in common: 72 samples, a small net with dropout, and a line for each step."""

import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import TensorDataset

from rankbook.core.placement import group_device, init

SAMPLES, BATCH, STEPS = 72, 12, 18  # an epoch has six steps; two, three and four divide a batch


def begin() -> torch.device:
    """Join the group, if not done yet; its device. Sums are to be the same in every start."""
    torch.set_num_threads(1)
    device = group_device() if dist.is_initialized() else init()
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    return device


def samples() -> TensorDataset:
    """The samples: 10 inputs, and 5 targets that are products of two inputs each."""
    inputs = torch.randn(SAMPLES, 10, generator=torch.Generator().manual_seed(0))
    return TensorDataset(inputs, inputs[:, :5] * inputs[:, 5:])


def net() -> nn.Sequential:
    """The same on all ranks; from here on, dropout differs between them."""
    torch.manual_seed(0)
    layers = nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 5)
    torch.manual_seed(1 + (dist.get_rank() if dist.is_initialized() else 0))
    return nn.Sequential(*layers)


def tell(folder: str, step: int, loss: float | torch.Tensor) -> None:
    """Append what rank 0 knows of a step to DIR/steps.jsonl; not part of the loop."""
    if dist.get_rank() == 0:
        life = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
        loss = loss.item() if isinstance(loss, torch.Tensor) else loss
        line = json.dumps({"life": life, "step": step, "loss": loss})
        with (Path(folder) / "steps.jsonl").open("a") as file:
            file.write(line + "\n")
