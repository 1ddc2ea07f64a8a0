"""The options of pipe_ddp: read, completed and checked before any rank talks to another."""

import argparse
from pathlib import Path

from rankbook.models import preset
from rankbook.parallel import PipelinePlan, schedule_names
from rankbook.programs.options import Parser, positive, rate

# what the presets of the model do not say. The batch is that of all replicas together
DEFAULTS = {
    "tiny": {"batch": 40, "steps": 200, "lr": 6e-3, "warm_up": 20},
    "original": {"batch": 40, "steps": 150, "lr": 1e-4, "warm_up": 50},
}
# torch 2.13 raises there: "compiled with non-empty donated buffers"
SPLIT = ("interleavedzb", "zbv", "dualpipev")
# a run that goes on must have them as they were
DECIDING = ("preset", "batch", "window", "lr", "warm_up", "max_norm", "seed", "bf16")


def parser() -> Parser:
    """What the command line may say."""
    p = Parser(
        prog="torchrun ... -m rankbook.programs.pipe_ddp",
        description="Train a Transformer on WikiText-2: pipelines of stages, and replicas of them.",
    )
    add = p.add_argument
    add("--preset", choices=list(DEFAULTS), default="tiny", help="the sizes of the model")
    add("--stages", type=positive, default=2, help="parts of the model (2)")
    add("--replicas", type=positive, help="pipelines side by side (as many as processes allow)")
    names = schedule_names()
    add("--schedule", choices=names, help="(1f1b; interleaved1f1b with several stages a process)")
    add("--microbatches", type=positive, help="parts of a pipeline's share of the batch (4)")
    add("--batch", type=positive, help="rows of the text in a step, for all replicas (40)")
    add("--window", type=positive, default=35, help="tokens of a row in a step (35)")
    add("--steps", type=positive, help="optimizer steps, those before --resume included")
    add("--lr", type=rate, help="the highest learning rate")
    add("--warm-up", type=positive, help="steps until the learning rate is at its highest")
    add("--max-norm", type=rate, default=0.5, help="of the whole model's gradient (0.5)")
    add("--seed", type=int, default=0, help="of the parameters and of dropout (0)")
    add("--evaluate-every", type=positive, default=50, metavar="STEPS", help="(50)")
    add("--evaluate-on", type=positive, metavar="BATCHES", help="(all of the split)")
    add("--checkpoint", type=Path, metavar="DIR", help="keep the latest and the best state there")
    add("--save-every", type=positive, default=50, metavar="STEPS", help="(50)")
    add("--resume", action="store_true", help="go on from the latest state in --checkpoint")
    add("--log-file", type=Path, metavar="FILE", help="append one line of JSON a record")
    add("--log-every", type=positive, default=10, metavar="STEPS", help="(10)")
    add("--compile", action="store_true", help="torch.compile each layer, and the loss")
    add("--bf16", action="store_true", help="bfloat16 where autocast finds it safe")
    add("--backend", choices=["auto", "gloo", "nccl"], default="auto", help="(auto)")
    add("--timeout", type=rate, default=600.0, metavar="SECONDS", help="for a silent rank (600)")
    return p


def read(arguments: list[str]) -> argparse.Namespace:
    """The options, completed by the preset's. Raises ValueError for what cannot be meant."""
    options = parser().parse_args(arguments)
    for name, value in DEFAULTS[options.preset].items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.resume and options.checkpoint is None:
        raise ValueError("--resume needs --checkpoint DIR, the folder of the run to go on with")
    return options


def make_plan(options: argparse.Namespace, world_size: int) -> PipelinePlan:
    """How `world_size` processes share the stages and the replicas.

    With fewer processes than stages x replicas, a process gets several stages. Raises ValueError
    if it cannot be done, or does not suit the batch or the preset's layers.
    """
    replicas = options.replicas or world_size // _ranks(options, world_size)
    if world_size % replicas:
        raise ValueError(
            f"--replicas {replicas} needs a multiple of {replicas} processes, not {world_size}; "
            "with fewer replicas the same --batch gives the same training"
        )
    ranks = world_size // replicas
    schedule = options.schedule or ("1f1b" if ranks == options.stages else "interleaved1f1b")
    microbatches = options.microbatches or max(4, options.stages)
    plan = PipelinePlan(schedule, ranks, microbatches, replicas, options.stages)
    plan.check_model(preset(options.preset, vocab_size=1))
    plan.check_batch(options.batch)
    if options.compile and schedule in SPLIT:
        raise ValueError(
            f"--compile does not go with schedule {schedule}: it calls the two halves of backward "
            "apart, and a compiled layer has one; use another schedule, or leave out --compile"
        )
    return plan


def deciding(options: argparse.Namespace) -> dict:
    """The options that a run has to keep when it goes on."""
    return {name: getattr(options, name) for name in DECIDING}


def check_same(options: argparse.Namespace, kept: dict) -> None:
    """Raise ValueError if the run in the folder was started with other options than these."""
    for name, value in deciding(options).items():
        if kept.get(name) != value:
            raise ValueError(
                f"--{name.replace('_', '-')} is {value}, but the run in {options.checkpoint} has "
                f"{kept.get(name)}; give the same, or start a new run in another folder"
            )


def _ranks(options: argparse.Namespace, world_size: int) -> int:
    """Processes in a pipeline, where the replicas are left open: as many as have stages to do."""
    several = options.schedule not in (None, "gpipe", "1f1b")
    most = max(1, options.stages // 2) if several else options.stages
    return max(n for n in range(1, most + 1) if world_size % n == 0 and options.stages % n == 0)
