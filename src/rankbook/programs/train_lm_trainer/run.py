"""A causal language model, trained by transformers' Trainer on the lines of a text.

python -m rankbook.programs.train_lm_trainer --train-file FILE
torchrun --standalone --nproc-per-node 2 -m rankbook.programs.train_lm_trainer --train-file FILE
"""

import itertools
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from rankbook.core.agreement import agree, broadcast_from_rank0, gather, rank_and_world
from rankbook.core.placement import init
from rankbook.data.lines import ShardedLines
from rankbook.programs.ending import exit_on_user_error
from rankbook.programs.report import Log, Progress
from rankbook.programs.resuming import open_run
from rankbook.programs.train_lm_trainer.model import load
from rankbook.programs.train_lm_trainer.options import Options, read, resume_invariants
from rankbook.programs.train_lm_trainer.training_log import TrainingLog
from rankbook.training.checkpoint import Checkpoints, Saved

if TYPE_CHECKING:
    from rankbook.programs.train_lm_trainer.trainer import CheckpointedTrainer


PROBE = 2**16  # bytes of a file that say whether it is text


def main(arguments: list[str] | None = None) -> dict:
    """Train as the options say, on every rank; return the losses, and the samples by epoch."""
    with exit_on_user_error("train_lm_trainer"):
        options, trainer, log = prepare(sys.argv[1:] if arguments is None else arguments)
    with exit_on_user_error("train_lm_trainer", OSError):
        train(options, trainer)
    if dist.is_initialized():
        dist.destroy_process_group()
    return {"losses": log.losses, "valid_losses": log.valid_losses, "samples": log.samples}


def prepare(arguments: list[str]) -> tuple[Options, "CheckpointedTrainer", TrainingLog]:
    """Check everything, join the group if torchrun described one, make the Trainer."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    options = read(arguments, world_size)
    device = join(options)
    sizes = agree(lambda: check_files(options, world_size))
    check_same(gather(sizes))
    checkpoints, saved = open_checkpoints(options, sizes)
    tokenizer, model = agree(lambda: load(options))
    step = saved.step if saved else 0
    log = TrainingLog(Log(None), Progress(step, options.steps, rank_and_world()[0] != 0))
    about = describe(options, sizes, model, device, world_size) | {"from step": step}
    broadcast_from_rank0(lambda: log.begin(options.log_file, about))
    log.bar.say(f"{world_size} x {options.share} samples in a step, {options.steps} steps")
    from rankbook.programs.train_lm_trainer.trainer import make_trainer  # slow to import

    made = make_trainer(options, tokenizer, model, device, log, checkpoints, saved)
    return options, made, log


def join(options: Options) -> torch.device:
    """Join the group that torchrun described, if it did; give this rank's device."""
    if "WORLD_SIZE" in os.environ:
        return init(options.backend, options.timeout)
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # Trainer would take all of them
    gpu = torch.cuda.is_available() and options.backend != "gloo"
    return torch.device("cuda" if gpu else "cpu")


def open_checkpoints(
    options: Options, sizes: dict[str, int]
) -> tuple[Checkpoints | None, Saved | None]:
    """Where the run is kept, and what is there of it to go on from; on all ranks."""
    if options.checkpoint is None:
        return None, None
    open_run(options.checkpoint, resume_invariants(options, sizes), options.resume)
    checkpoints = Checkpoints(options.checkpoint)
    saved, here = checkpoints.newest(), rank_and_world()[1]
    if saved and (there := len(saved.state["rng"])) != here:
        raise ValueError(
            f"the run in {options.checkpoint} was saved by {there} ranks, and here are {here}, "
            f"which would read other shares of the lines; use {there} again"
        )
    return checkpoints, saved


def train(options: Options, trainer: "CheckpointedTrainer") -> None:
    """The steps that are left, and what the options ask for at the end."""
    model: Any = trainer.model
    if trainer.saved and trainer.saved.step >= options.steps:
        trainer.saved.load_into(model)
    else:
        trainer.train()
    if options.valid_file:
        trainer.evaluate()
    if options.output and trainer.is_world_process_zero():
        tokenizer: Any = trainer.processing_class
        model.save_pretrained(options.output)
        tokenizer.save_pretrained(options.output)


def check_files(options: Options, world_size: int) -> dict[str, int]:
    """The bytes of each file. Raises for one that cannot be read, or has too few samples."""
    sizes = {}
    for path in filter(None, (options.train_file, options.valid_file)):
        lines = ShardedLines(path, skip_blank=True, rank=0, world_size=1)
        with path.open("rb") as file:
            if b"\0" in file.read(PROBE):
                raise ValueError(
                    f"{path} is no UTF-8 text: there are zero bytes in it; name a file of lines"
                )
        sizes[str(path)] = lines.size
        need = world_size if path == options.train_file else 1
        found = sum(1 for _ in itertools.islice(lines, need))
        if found < need:
            raise ValueError(
                f"{path} has {found} samples (lines that are not blank), and {need} ranks need "
                "one each; use fewer ranks, or a longer text"
            )
    return sizes


def check_same(sizes: list[dict[str, int]]) -> None:
    """Raise ValueError on every rank if a file has not the same bytes on all; `sizes`: by rank."""
    first = sizes[0]
    for rank, mine in enumerate(sizes):
        for path, size in mine.items():
            if size != first[path]:
                raise ValueError(
                    f"{path} has {first[path]} bytes on rank 0 and {size} on rank {rank}; "
                    "copy the same file to every node"
                )


def describe(options: Options, sizes: dict, model, device: torch.device, world_size: int) -> dict:
    """What is run, where, for the log."""
    return {
        "options": asdict(options),
        "world size": world_size,
        "nodes": world_size // int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        "bytes": sizes,
        "parameters": sum(p.numel() for p in model.parameters()),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "torch": torch.__version__,
    }
