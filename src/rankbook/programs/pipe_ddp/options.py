"""The options of pipe_ddp: read, completed and checked before any rank talks to another."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankbook.models import preset
from rankbook.parallel import PipelinePlan, schedule_names
from rankbook.programs.options import Parser, positive, rate, typed

# what the presets of the model do not say. The batch is that of all replicas together
DEFAULTS = {
    "tiny": {"batch": 40, "steps": 200, "lr": 6e-3, "warm_up": 20},
    "original": {"batch": 40, "steps": 150, "lr": 1e-4, "warm_up": 50},
}
# torch 2.13 raises there: "compiled with non-empty donated buffers"
SPLIT = ("interleavedzb", "zbv", "dualpipev")
# a run that goes on must have them as they were
DECIDING = ("preset", "batch", "window", "lr", "warm_up", "max_norm", "seed", "bf16")


@dataclass(frozen=True)
class Options:
    """What to train, on how many stages and replicas, and what to keep of it; checked.

    preset: sizes of the model, one of DEFAULTS. stages: of a pipeline; replicas, schedule,
    microbatches: None for what suits the processes. batch: rows of the text in a step, of all
    replicas. window: tokens of a row. evaluate_on: batches, None for all. checkpoint: a folder, or
    nothing is kept. timeout: in seconds.
    """

    preset: str
    stages: int
    replicas: int | None
    schedule: str | None
    microbatches: int | None
    batch: int
    window: int
    steps: int
    epochs: int | None
    lr: float
    warm_up: int
    max_norm: float
    seed: int
    evaluate_every: int
    evaluate_on: int | None
    checkpoint: Path | None
    save_every: int
    resume: bool
    log_file: Path | None
    log_every: int
    compile: bool
    bf16: bool
    backend: str
    timeout: float


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
    add("--epochs", type=positive, help="whole passes over the text, instead of --steps")
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


def read(arguments: list[str]) -> Options:
    """The options, completed by the preset's. Raises ValueError for what cannot be meant."""
    parsed = parser().parse_args(arguments)
    if parsed.resume and parsed.checkpoint is None:
        raise ValueError("--resume needs --checkpoint DIR, the folder of the run to go on with")
    if parsed.epochs and parsed.steps:
        raise ValueError("--steps and --epochs both say when to stop; use one of them")
    defaults = DEFAULTS[parsed.preset]
    left_open = {n: value for n, value in defaults.items() if getattr(parsed, n) is None}
    return typed(Options, parsed, **left_open)


def make_plan(options: Options, world_size: int) -> PipelinePlan:
    """How `world_size` processes share the stages and the replicas.

    With fewer processes than stages x replicas, a process gets several stages. Raises ValueError
    if it cannot be done, or does not suit the batch or the preset's layers.
    """
    replicas = options.replicas or world_size // _ranks(options, world_size)
    if options.replicas is None and replicas == world_size > 1 and options.stages > 1:
        raise ValueError(
            f"--stages {options.stages} suits no pipeline of several of {world_size} processes; "
            f"use --stages {world_size * _fewest(options)}, or --replicas {world_size} for as many "
            "copies of the whole model"
        )
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


def deciding(options: Options) -> dict[str, Any]:
    """The options that a run has to keep when it goes on."""
    return {name: getattr(options, name) for name in DECIDING}


def _ranks(options: Options, world_size: int) -> int:
    """Processes in a pipeline, where the replicas are left open: as many as have stages to do."""
    most = max(1, options.stages // _fewest(options))
    return max(n for n in range(1, most + 1) if world_size % n == 0 and options.stages % n == 0)


def _fewest(options: Options) -> int:
    """The fewest stages that the schedule puts in a process."""
    return 1 if options.schedule in (None, "gpipe", "1f1b") else 2
