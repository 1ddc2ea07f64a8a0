"""The options of train_lm_trainer: read and checked before any rank waits for another."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankbook.programs.number_types import nonnegative_int, positive_float, positive_int
from rankbook.programs.options import Parser, backend_option, from_namespace, option, timeout_option

WAYS = ("shares", "first")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to train on what, and what to keep of it; checked.

    share: samples of one rank in one of the `accumulate` parts of a batch.
    """

    train_file: Path = option(Path, metavar="FILE", help="text; a line is a sample (required)")
    valid_file: Path | None = option(Path, metavar="FILE", help="text to evaluate on (none)")
    model: str | None = option(metavar="NAME", help="of the hub, or its folder (a tiny new one)")
    batch: int = option(positive_int, 16, help="samples in a step, of all ranks (16)")
    accumulate: int = option(positive_int, 1, metavar="PARTS", help="of a rank's batch (1)")
    share: int
    length: int = option(positive_int, 128, help="tokens of a sample, at most (128)")
    read: str = option(default="shares", choices=WAYS, help="each rank its share, or rank 0 all")
    workers: int = option(nonnegative_int, 0, help="loader processes of each rank (0)")
    steps: int = option(positive_int, 100, help="optimizer steps (100)")
    lr: float = option(
        positive_float, 3e-3, help="the highest learning rate; it falls to 0 (0.003)"
    )
    warm_up: int = option(nonnegative_int, 0, metavar="STEPS", help="(0)")
    seed: int = option(int, 0, help="of the parameters and the order of lines (0)")
    evaluate_every: int | None = option(positive_int, metavar="STEPS", help="(at the end)")
    checkpoint: Path | None = option(Path, metavar="DIR", help="keep the state of the run there")
    save_every: int = option(positive_int, 50, metavar="STEPS", help="(50, and at the end)")
    resume: bool = option(bool, help="go on from the newest state in --checkpoint")
    output: Path | None = option(
        Path, metavar="DIR", help="keep the trained model there, for --model"
    )
    log_file: Path | None = option(Path, metavar="FILE", help="append one line of JSON a record")
    log_every: int = option(positive_int, 10, metavar="STEPS", help="(10)")
    bf16: bool = option(bool, help="bfloat16 where autocast finds it safe")
    backend: str = backend_option()
    timeout: float = timeout_option()


def parser() -> Parser:
    """What the command line may say."""
    return Parser(
        "torchrun ... -m rankbook.programs.train_lm_trainer",
        "Train a causal language model on the lines of a text, by transformers' Trainer: in one "
        "process, on one node or on many.",
        Options,
    )


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
    return from_namespace(Options, parsed, share=parsed.batch // parts)


def resume_invariants(options: Options, sizes: dict[str, int]) -> dict[str, Any]:
    """The options that a run has to keep when it goes on. sizes: bytes of the files."""
    names = ("model", "batch", "accumulate", "length", "read", "workers", "steps", "lr", "warm_up")
    kept = {name: getattr(options, name) for name in (*names, "seed", "bf16")}
    size = sizes[str(options.train_file)]
    return kept | {"train_file": f"{options.train_file.name} of {size} bytes"}
