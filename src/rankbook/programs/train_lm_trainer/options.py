"""The options of train_lm_trainer: read and checked before any rank waits for another."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankbook.programs.options import Parser, natural, positive, rate, typed

WAYS = ("shares", "first")


@dataclass(frozen=True)
class Options:
    """What to train on what, and what to keep of it; checked.

    train_file, valid_file: a line is a sample. model: of the hub or a folder, None for a tiny one.
    batch: samples in a step, of all ranks; share: of one rank in one of the `accumulate` parts.
    length: tokens of a sample. read: one of WAYS. evaluate_every: None for the end only.
    checkpoint: a folder, or nothing is kept but `output`. timeout: in seconds.
    """

    train_file: Path
    valid_file: Path | None
    model: str | None
    batch: int
    accumulate: int
    share: int
    length: int
    read: str
    workers: int
    steps: int
    lr: float
    warm_up: int
    seed: int
    evaluate_every: int | None
    checkpoint: Path | None
    save_every: int
    resume: bool
    output: Path | None
    log_file: Path | None
    log_every: int
    bf16: bool
    backend: str
    timeout: float


def parser() -> Parser:
    """What the command line may say."""
    p = Parser(
        prog="torchrun ... -m rankbook.programs.train_lm_trainer",
        description="Train a causal language model on the lines of a text, by transformers' "
        "Trainer: in one process, on one node or on many.",
    )
    add = p.add_argument
    add("--train-file", type=Path, metavar="FILE", help="text; a line is a sample (required)")
    add("--valid-file", type=Path, metavar="FILE", help="text to evaluate on (none)")
    add("--model", metavar="NAME", help="of the hub, or its folder (a tiny new one)")
    add("--batch", type=positive, default=16, help="samples in a step, of all ranks (16)")
    add("--accumulate", type=positive, default=1, metavar="PARTS", help="of a rank's batch (1)")
    add("--length", type=positive, default=128, help="tokens of a sample, at most (128)")
    add("--read", choices=WAYS, default="shares", help="each rank its share, or rank 0 all")
    add("--workers", type=natural, default=0, help="loader processes of each rank (0)")
    add("--steps", type=positive, default=100, help="optimizer steps (100)")
    add("--lr", type=rate, default=3e-3, help="the highest learning rate; it falls to 0 (0.003)")
    add("--warm-up", type=natural, default=0, metavar="STEPS", help="(0)")
    add("--seed", type=int, default=0, help="of the parameters and the order of lines (0)")
    add("--evaluate-every", type=positive, metavar="STEPS", help="(at the end)")
    add("--checkpoint", type=Path, metavar="DIR", help="keep the state of the run there")
    add("--save-every", type=positive, default=50, metavar="STEPS", help="(50, and at the end)")
    add("--resume", action="store_true", help="go on from the newest state in --checkpoint")
    add("--output", type=Path, metavar="DIR", help="keep the trained model there, for --model")
    add("--log-file", type=Path, metavar="FILE", help="append one line of JSON a record")
    add("--log-every", type=positive, default=10, metavar="STEPS", help="(10)")
    add("--bf16", action="store_true", help="bfloat16 where autocast finds it safe")
    add("--backend", choices=["auto", "gloo", "nccl"], default="auto", help="(auto)")
    add("--timeout", type=rate, default=600.0, metavar="SECONDS", help="for a silent rank (600)")
    return p


def read(arguments: list[str], world_size: int) -> Options:
    """The options of a command line.

    Raises ValueError for what cannot be meant, or does not suit `world_size` ranks.
    """
    parsed = parser().parse_args(arguments)
    if parsed.train_file is None:
        raise ValueError("--train-file FILE is missing: a text of which each line is a sample")
    if parsed.resume and parsed.checkpoint is None:
        raise ValueError("--resume needs --checkpoint DIR, the folder of the run to go on with")
    if parsed.length < 2:
        raise ValueError("--length 1 leaves no token to predict; use 2 or more")
    parts = world_size * parsed.accumulate
    if parsed.batch % parts:
        raise ValueError(
            f"--batch {parsed.batch} cannot be shared by {world_size} ranks x "
            f"--accumulate {parsed.accumulate}; use a multiple of {parts}"
        )
    if parsed.read == "first" and parsed.workers > 1:
        raise ValueError(
            f"--read first with --workers {parsed.workers} would lose samples where a worker ends "
            "with part of a batch; use --workers 1, or --read shares"
        )
    return typed(Options, parsed, share=parsed.batch // parts)


def deciding(options: Options, sizes: dict[str, int]) -> dict[str, Any]:
    """The options that a run has to keep when it goes on. sizes: bytes of the files."""
    names = ("model", "batch", "accumulate", "length", "read", "workers", "steps", "lr", "warm_up")
    kept = {name: getattr(options, name) for name in (*names, "seed", "bf16")}
    size = sizes[str(options.train_file)]
    return kept | {"train_file": f"{options.train_file.name} of {size} bytes"}
