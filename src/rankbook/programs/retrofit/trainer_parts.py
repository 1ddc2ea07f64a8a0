"""What the loops with transformers' Trainer have in common, and what makes one survive."""

import os
from pathlib import Path

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.utils.data import Dataset
from transformers import TrainerCallback

from rankbook.core.agreement import broadcast_from_rank0
from rankbook.core.atomic import write_text_atomic
from rankbook.programs.retrofit.parts import net, samples, tell
from rankbook.training.elastic import PreemptionHandler

WHOLE = "whole"  # the file that a checkpoint of Trainer gets last


class Survives(TrainerCallback):
    """Lets a Trainer save and stop when any rank is told to, and marks what is saved on all."""

    def __init__(self, notice: PreemptionHandler):
        self.notice = notice

    def on_step_end(self, args, state, control, **more):
        if self.notice.agreed():
            control.should_save = control.should_training_stop = True
        return control

    def on_save(self, args, state, control, **more):
        os.sync()  # Trainer itself waits for no disk
        dist.barrier()
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            write_text_atomic(folder / WHOLE, "")


def newest(folder: str) -> str | None:
    """The newest checkpoint that all ranks have finished, the same on all; None to begin."""

    def look() -> str | None:
        marks = Path(folder).glob(f"checkpoint-*/{WHOLE}")
        by_step = {int(mark.parent.name.split("-")[1]): str(mark.parent) for mark in marks}
        return by_step[max(by_step)] if by_step else None

    return broadcast_from_rank0(look)


class Tells(TrainerCallback):
    """A line for each step; not part of the loop."""

    def on_log(self, args, state, control, logs=None, **more):
        if logs and "loss" in logs:
            tell(args.output_dir, state.global_step, logs["loss"])


class WithLoss(nn.Module):
    """The net, in the form that Trainer wants."""

    def __init__(self):
        super().__init__()
        self.net = net()

    def forward(self, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        outputs = self.net(inputs)
        return {"loss": mse_loss(outputs, labels), "logits": outputs}


class Rows(Dataset):
    """The samples, in the form that Trainer wants."""

    def __init__(self):
        self.data = samples()

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        inputs, labels = self.data[index]
        return {"inputs": inputs, "labels": labels}
