"""The options of train_lm_trainer: read and checked before any rank waits for another."""

import argparse
from pathlib import Path

from rankbook.programs.options import Parser, natural, positive, rate

WAYS = ("shares", "first")


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
    add(
        "--model",
        metavar="NAME",
        help="of the hub, or its folder (a tiny new one)",
    )
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
    add("--output", type=Path, metavar="DIR", help="keep the trained model there, for --model")
    add("--log-file", type=Path, metavar="FILE", help="append one line of JSON a record")
    add("--log-every", type=positive, default=10, metavar="STEPS", help="(10)")
    add("--bf16", action="store_true", help="bfloat16 where autocast finds it safe")
    add("--backend", choices=["auto", "gloo", "nccl"], default="auto", help="(auto)")
    add("--timeout", type=rate, default=600.0, metavar="SECONDS", help="for a silent rank (600)")
    return p


def read(arguments: list[str], world_size: int) -> argparse.Namespace:
    """The options, and `share`: the samples of a rank in a part of a step.

    Raises ValueError for what cannot be meant, or does not suit `world_size` ranks.
    """
    options = parser().parse_args(arguments)
    if options.train_file is None:
        raise ValueError("--train-file FILE is missing: a text of which each line is a sample")
    if options.length < 2:
        raise ValueError("--length 1 leaves no token to predict; use 2 or more")
    parts = world_size * options.accumulate
    if options.batch % parts:
        raise ValueError(
            f"--batch {options.batch} cannot be shared by {world_size} ranks x "
            f"--accumulate {options.accumulate}; use a multiple of {parts}"
        )
    if options.read == "first" and options.workers > 1:
        raise ValueError(
            f"--read first with --workers {options.workers} would lose samples where a worker ends "
            "with part of a batch; use --workers 1, or --read shares"
        )
    options.share = options.batch // parts
    return options
