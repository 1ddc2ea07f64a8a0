"""The options of elastic: read and checked before anything is loaded or any rank waits."""

import argparse
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from rankbook.programs.options import Parser, natural, positive, rate, seconds, share, typed

LR = {"toy": 0.05, "lm": 3e-3}
SCALES = {"none": 0.0, "linear": 1.0, "sqrt": 0.5}  # the power of the world size in the rate


@dataclass(frozen=True)
class Options:
    """What to train, how long, and what to keep of it; checked.

    checkpoint: the folder of the run. model: one of LR. samples: of an epoch, all if None. length:
    tokens of a sample of text. steps, epochs: one of them says when it is over. batch: samples of
    a step, of all ranks; batch_per_rank: of one, if it grows with them. scale_lr: one of SCALES.
    lr: for this many ranks. workers: of each rank. pace, timeout, grace: in seconds. pace_until: a
    file; once it is there, there is no pace any more.
    """

    checkpoint: Path
    save_every: int
    keep: int
    sharded: bool
    model: str
    samples: int | None
    length: int | None
    dropout: float
    steps: int | None
    epochs: int | None
    batch: int
    batch_per_rank: int | None
    scale_lr: str
    lr: float
    workers: int
    seed: int
    events: Path | None
    pace: float
    pace_until: Path | None
    timeout: float
    grace: float
    backend: str


def parser() -> Parser:
    """What the command line may say."""
    p = Parser(
        prog="[torchrun ...] -m rankbook.programs.elastic",
        description="Train on any number of ranks, which may come, go and die: the run goes on "
        "from its newest checkpoint, as if nothing had happened.",
    )
    add = p.add_argument
    add("--checkpoint", type=Path, metavar="DIR", help="seen by all nodes (required)")
    add("--save-every", type=positive, default=10, metavar="STEPS", help="(10)")
    add("--keep", type=positive, default=3, metavar="N", help="checkpoints (3)")
    add(
        "--sharded",
        action="store_true",
        help="FSDP2: each rank keeps and writes a part",
    )
    add("--model", choices=list(LR), default="toy", help="a small net, or WikiText-2 (toy)")
    add("--samples", type=positive, metavar="N", help="of an epoch (64, or all of the text)")
    add("--length", type=positive, metavar="TOKENS", help="of a sample of text (32)")
    add("--dropout", type=share, default=0.0, metavar="P", help="(0)")
    end = p.add_mutually_exclusive_group()
    end.add_argument("--steps", type=positive, metavar="N", help="optimizer steps in all")
    end.add_argument("--epochs", type=positive, metavar="N", help="(2)")
    batch = p.add_mutually_exclusive_group()
    batch.add_argument("--global-batch", type=positive, metavar="N", help="of all ranks (16)")
    batch.add_argument("--batch-per-rank", type=positive, metavar="N", help="grows with the ranks")
    add("--scale-lr", choices=list(SCALES), help="what the rate does then (required then)")
    add("--lr", type=rate, help="the learning rate (0.05, or 0.003 for text)")
    add("--workers", type=natural, default=0, help="loader processes of each rank (0)")
    add("--seed", type=int, default=0, help="of the parameters, the order and dropout (0)")
    add("--events", type=Path, metavar="FILE", help="append a line of JSON an event")
    add("--pace", type=seconds, default=0.0, metavar="SECONDS", help="of a step, at least (0)")
    add("--pace-until", type=Path, metavar="FILE", help="no longer, once it is there")
    add("--timeout", type=rate, default=60.0, metavar="SECONDS", help="for a silent rank (60)")
    add("--grace", type=seconds, default=20.0, metavar="SECONDS", help="to obey a signal (20)")
    add("--backend", choices=["auto", "gloo", "nccl"], default="auto", help="(auto)")
    return p


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
    return typed(Options, parsed, batch=batch, scale_lr=scale_lr, lr=lr, epochs=epochs)


def batch_and_scale(parsed: argparse.Namespace, ranks: int) -> tuple[int, str]:
    """The samples of a step, of all ranks, and one of SCALES. Raises ValueError."""
    if parsed.batch_per_rank is None:
        if parsed.scale_lr is not None:
            raise ValueError(
                "--scale-lr is for --batch-per-rank; a global batch is the same for any number of "
                "ranks, and so is its learning rate"
            )
        return parsed.global_batch or 16, "none"
    if parsed.scale_lr is None:
        raise ValueError(
            "--batch-per-rank makes the global batch grow with the ranks; say what the learning "
            "rate does then: --scale-lr linear, sqrt or none"
        )
    return parsed.batch_per_rank * ranks, parsed.scale_lr
