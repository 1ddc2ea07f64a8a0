"""What to train, and what to keep of it: the options that train_lm shares with pipe_ddp."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankbook.parallel import find_schedule, schedule_names
from rankbook.programs.options import Parser, positive, rate

# What the presets of the model do not say. AdamW divides a gradient by its size: with its usual
# epsilon, 1e-8, one that is rounding alone, as that of a key's bias, makes as long a step as any,
# and two meshes part: 5e-5 in the loss after ten steps of preset tiny. With 1e-5 it is 1e-6.
DEFAULTS = {
    "tiny": {"steps": 200, "lr": 6e-3, "warm_up": 20, "eps": 1e-5},
    "original": {"steps": 150, "lr": 1e-4, "warm_up": 50, "eps": 1e-8},
}
# a run that goes on must have them as they were; on how many ranks, cut in which way, is free
DECIDING = ("preset", "batch", "window", "lr", "warm_up", "eps", "max_norm", "seed", "bf16")


@dataclass(frozen=True)
class Training:
    """What to train, and what to keep of it.

    preset: sizes of the model, one of DEFAULTS. schedule, microbatches: None for what suits the
    pipeline. batch: rows of the text in a step, of all replicas. window: tokens of a row.
    evaluate_every: in steps; None for never. evaluate_on: batches, None for all. checkpoint: a
    folder, or nothing is kept. timeout: in seconds.
    """

    preset: str
    schedule: str | None
    microbatches: int | None
    batch: int
    window: int
    steps: int
    epochs: int | None
    lr: float
    warm_up: int
    eps: float
    max_norm: float
    seed: int
    evaluate_every: int | None
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


def training_parser(
    program: str,
    description: str,
    *,
    batch: int,
    window: int,
    log_every: int,
    evaluate: int | None,
    eps: float | None = None,
) -> Parser:
    """What a command line may say of `Training`; the numbers are a program's own defaults.

    eps: that of all presets; each has its own if None.
    """
    p = Parser(prog=f"torchrun ... -m rankbook.programs.{program}", description=description)
    add = p.add_argument
    add("--preset", choices=list(DEFAULTS), default="tiny", help="the sizes of the model")
    names = schedule_names()
    add("--schedule", choices=names, help="(1f1b; interleaved1f1b with several stages a process)")
    parts = "of a pipeline (4); without one, backward passes that accumulate gradients (1)"
    add("--microbatches", type=positive, help=parts)
    rows = f"rows of the text in a step, for all replicas ({batch})"
    add("--batch", type=positive, default=batch, help=rows)
    add("--window", type=positive, default=window, help=f"tokens of a row in a step ({window})")
    add("--steps", type=positive, help="optimizer steps, those before --resume included")
    add("--epochs", type=positive, help="whole passes over the text, instead of --steps")
    add("--lr", type=rate, help="the highest learning rate")
    add("--warm-up", type=positive, help="steps until the learning rate is at its highest")
    of_preset = f"{eps or '1e-5; preset original 1e-8'}"
    add("--eps", type=rate, default=eps, help=f"AdamW's epsilon ({of_preset})")
    add("--max-norm", type=rate, default=0.5, help="of the whole model's gradient (0.5)")
    add("--seed", type=int, default=0, help="of the parameters and of dropout (0)")
    every = {"type": positive, "default": evaluate, "metavar": "STEPS"}
    add("--evaluate-every", **every, help=f"({evaluate or 'never'})")
    add("--evaluate-on", type=positive, metavar="BATCHES", help="(all of the split)")
    add("--checkpoint", type=Path, metavar="DIR", help="keep the latest and the best state there")
    add("--save-every", type=positive, default=50, metavar="STEPS", help="(50)")
    add("--resume", action="store_true", help="go on from the latest state in --checkpoint")
    add("--log-file", type=Path, metavar="FILE", help="append one line of JSON a record")
    steps = {"type": positive, "default": log_every, "metavar": "STEPS"}
    add("--log-every", **steps, help=f"({log_every})")
    add("--compile", action="store_true", help="torch.compile each layer, and the loss")
    add("--bf16", action="store_true", help="bfloat16 where autocast finds it safe")
    add("--backend", choices=["auto", "gloo", "nccl"], default="auto", help="(auto)")
    add("--timeout", type=rate, default=600.0, metavar="SECONDS", help="for a silent rank (600)")
    return p


def left_open(parsed: Any) -> dict[str, Any]:
    """What the preset says where the command line does not. Raises ValueError."""
    if parsed.epochs and parsed.steps:
        raise ValueError("--steps and --epochs both say when to stop; use one of them")
    defaults = DEFAULTS[parsed.preset]
    return {name: value for name, value in defaults.items() if getattr(parsed, name) is None}


def check_compile(compiled: bool, schedule: str) -> None:
    """Raise ValueError where compiled layers cannot be run by `schedule`.

    torch 2.13 raises there: "compiled with non-empty donated buffers".
    """
    if compiled and find_schedule(schedule).splits_backward:
        raise ValueError(
            f"--compile does not go with schedule {schedule}: it calls the two halves of backward "
            "apart, and a compiled layer has one; use another schedule, or leave out --compile"
        )


def deciding(options: Training) -> dict[str, Any]:
    """The options that a run has to keep when it goes on."""
    return {name: getattr(options, name) for name in DECIDING}
