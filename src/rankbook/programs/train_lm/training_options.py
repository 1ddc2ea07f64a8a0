"""What to train, and what to keep of it: the options that train_lm shares with pipe_ddp."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankbook.parallel.pipeline import find_schedule, schedule_names
from rankbook.programs.number_types import positive_float, positive_int
from rankbook.programs.options import backend_option, option, timeout_option

# What the presets of the model do not say. AdamW divides a gradient by its size: with its usual
# epsilon, 1e-8, one that is rounding alone, as that of a key's bias, makes as long a step as any,
# and two meshes part: 5e-5 in the loss after ten steps of preset tiny. With 1e-5 it is 1e-6.
DEFAULTS = {
    "tiny": {"steps": 200, "lr": 6e-3, "warm_up": 20, "eps": 1e-5},
    "original": {"steps": 150, "lr": 1e-4, "warm_up": 50, "eps": 1e-8},
}
# a run that goes on must have them as they were; on how many ranks, cut in which way, is free
DECIDING = ("preset", "batch", "window", "lr", "warm_up", "eps", "max_norm", "seed", "bf16")


@dataclass(frozen=True, kw_only=True)
class Training:
    """What to train, and what to keep of it.

    schedule, microbatches: None for what suits the pipeline. steps: None until the epochs are
    counted in steps. evaluate_every: None for never.
    """

    preset: str = option(default="tiny", choices=DEFAULTS, help="the sizes of the model")
    schedule: str | None = option(
        choices=schedule_names(), help="(1f1b; interleaved1f1b with several stages a process)"
    )
    microbatches: int | None = option(
        positive_int,
        help="of a pipeline (4); without one, backward passes that accumulate gradients (1)",
    )
    batch: int = option(positive_int, 32, help="rows of the text in a step, for all replicas (32)")
    window: int = option(positive_int, 32, help="tokens of a row in a step (32)")
    steps: int = option(positive_int, help="optimizer steps, those before --resume included")
    epochs: int | None = option(positive_int, help="whole passes over the text, instead of --steps")
    lr: float = option(positive_float, help="the highest learning rate")
    warm_up: int = option(positive_int, help="steps until the learning rate is at its highest")
    eps: float = option(positive_float, help="AdamW's epsilon (1e-5; preset original 1e-8)")
    max_norm: float = option(positive_float, 0.5, help="of the whole model's gradient (0.5)")
    seed: int = option(int, 0, help="of the parameters and of dropout (0)")
    evaluate_every: int | None = option(positive_int, metavar="STEPS", help="(never)")
    evaluate_on: int | None = option(positive_int, metavar="BATCHES", help="(all of the split)")
    checkpoint: Path | None = option(
        Path, metavar="DIR", help="keep the latest and the best state there"
    )
    save_every: int = option(positive_int, 50, metavar="STEPS", help="(50)")
    resume: bool = option(bool, help="go on from the latest state in --checkpoint")
    log_file: Path | None = option(Path, metavar="FILE", help="append one line of JSON a record")
    log_every: int = option(positive_int, 1, metavar="STEPS", help="(1)")
    compile: bool = option(bool, help="torch.compile each layer, and the loss")
    bf16: bool = option(bool, help="bfloat16 where autocast finds it safe")
    backend: str = backend_option()
    timeout: float = timeout_option()


def preset_defaults(parsed: Any) -> dict[str, Any]:
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


def resume_invariants(options: Training) -> dict[str, Any]:
    """The options that a run has to keep when it goes on."""
    return {name: getattr(options, name) for name in DECIDING}
