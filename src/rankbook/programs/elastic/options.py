"""The options of elastic: read and checked before anything is loaded or any rank waits."""

import argparse
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from rankbook.programs.number_types import (
    fraction,
    nonnegative_float,
    nonnegative_int,
    positive_float,
    positive_int,
)
from rankbook.programs.options import Parser, backend_option, from_namespace, option, timeout_option

LR = {"toy": 0.05, "lm": 3e-3}
SCALES = {"none": 0.0, "linear": 1.0, "sqrt": 0.5}  # the power of the world size in the rate


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to train, how long, and what to keep of it; checked.

    steps, epochs: one of them says when it is over. batch: samples of a step, of all ranks;
    batch_per_rank: of one, if it grows with them. scale_lr: one of SCALES. lr: for this many ranks.
    """

    checkpoint: Path = option(Path, metavar="DIR", help="seen by all nodes (required)")
    save_every: int = option(positive_int, 10, metavar="STEPS", help="(10)")
    keep: int = option(positive_int, 3, metavar="N", help="checkpoints (3)")
    sharded: bool = option(bool, help="FSDP2: each rank keeps and writes a part")
    model: str = option(default="toy", choices=LR, help="a small net, or WikiText-2 (toy)")
    samples: int | None = option(
        positive_int, metavar="N", help="of an epoch (64, or all of the text)"
    )
    length: int | None = option(positive_int, metavar="TOKENS", help="of a sample of text (32)")
    dropout: float = option(fraction, 0.0, metavar="P", help="(0)")
    steps: int | None = option(
        positive_int, group="end", metavar="N", help="optimizer steps in all"
    )
    epochs: int | None = option(positive_int, group="end", metavar="N", help="(2)")
    batch: int = option(
        positive_int, flag="--global-batch", group="batch", metavar="N", help="of all ranks (16)"
    )
    batch_per_rank: int | None = option(
        positive_int, group="batch", metavar="N", help="grows with the ranks"
    )
    scale_lr: str = option(choices=SCALES, help="what the rate does then (required then)")
    lr: float = option(positive_float, help="the learning rate (0.05, or 0.003 for text)")
    workers: int = option(nonnegative_int, 0, help="loader processes of each rank (0)")
    seed: int = option(int, 0, help="of the parameters, the order and dropout (0)")
    events: Path | None = option(Path, metavar="FILE", help="append a line of JSON an event")
    pace: float = option(nonnegative_float, 0.0, metavar="SECONDS", help="of a step, at least (0)")
    pace_until: Path | None = option(Path, metavar="FILE", help="no longer, once it is there")
    timeout: float = timeout_option(60.0)
    grace: float = option(nonnegative_float, 20.0, metavar="SECONDS", help="to obey a signal (20)")
    backend: str = backend_option()


def parser() -> Parser:
    """What the command line may say."""
    return Parser(
        "[torchrun ...] -m rankbook.programs.elastic",
        "Train on any number of ranks, which may come, go and die: the run goes on from its newest "
        "checkpoint, as if nothing had happened.",
        Options,
    )


def read(arguments: list[str]) -> Options:
    """The options of a command line, for the ranks that are there.

    Raises ValueError for what cannot be meant.
    """
    parsed = parser().parse_args(arguments)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if parsed.checkpoint is None:
        raise ValueError("--checkpoint DIR is missing: the folder from which a restart goes on")
    if parsed.model == "toy" and parsed.length is not None:
        raise ValueError("--length is for text; add --model lm, or leave it out")
    if parsed.events is not None and parsed.events.is_dir():
        raise ValueError(f"--events {parsed.events} is a folder; name a file")
    if importlib.util.find_spec("torchdata") is None:
        raise ValueError(
            "torchdata is not installed, which loads the samples: pip install torchdata"
        )
    batch, scale_lr = batch_and_scale(parsed, ranks)
    lr = (parsed.lr or LR[parsed.model]) * ranks ** SCALES[scale_lr]
    epochs = 2 if parsed.steps is None and parsed.epochs is None else parsed.epochs
    made = {"batch": batch, "scale_lr": scale_lr, "lr": lr, "epochs": epochs}
    return from_namespace(Options, parsed, **made)


def batch_and_scale(parsed: argparse.Namespace, ranks: int) -> tuple[int, str]:
    """The samples of a step, of all ranks, and one of SCALES. Raises ValueError."""
    if parsed.batch_per_rank is None:
        if parsed.scale_lr is not None:
            raise ValueError(
                "--scale-lr is for --batch-per-rank; a global batch is the same for any number of "
                "ranks, and so is its learning rate"
            )
        return parsed.batch or 16, "none"
    if parsed.scale_lr is None:
        raise ValueError(
            "--batch-per-rank makes the global batch grow with the ranks; say what the learning "
            "rate does then: --scale-lr linear, sqrt or none"
        )
    return parsed.batch_per_rank * ranks, parsed.scale_lr
