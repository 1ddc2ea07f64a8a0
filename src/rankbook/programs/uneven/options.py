"""The options of uneven: read and checked before anything is loaded or any rank waits."""

from dataclasses import dataclass

from rankbook.programs.options import Parser, natural, positive, ranks, rate, typed
from rankbook.training import WAYS

START = "torchrun --standalone --nproc-per-node 2 -m rankbook.programs.uneven --inputs 5 6"


@dataclass(frozen=True)
class Options:
    """How to train; checked.

    how: one of WAYS. inputs: of each rank, in their order. lr: the learning rate of SGD. seed: of
    the parameters. timeout: seconds that a rank waits for a silent one.
    """

    how: str
    inputs: tuple[int, ...]
    epochs: int
    lr: float
    seed: int
    backend: str
    timeout: float


def parser() -> Parser:
    """What the command line may say."""
    p = Parser(
        prog="torchrun ... -m rankbook.programs.uneven",
        description="Train on ranks that have different numbers of inputs, in one of several ways.",
    )
    add = p.add_argument
    add("--how", choices=WAYS, default="join", help="what to do about it (join)")
    what = p.add_mutually_exclusive_group()
    what.add_argument(
        "--inputs", type=natural, nargs="+", metavar="N", help="of each rank (5, 6, 7, ...)"
    )
    what.add_argument("--samples", type=positive, metavar="N", help="inputs, dealt out to all")
    add("--epochs", type=positive, default=3, help="(3)")
    add("--lr", type=rate, default=0.5, help="the learning rate of SGD (0.5)")
    add("--seed", type=int, default=0, help="of the parameters (0)")
    add("--backend", choices=["auto", "gloo", "nccl"], default="auto", help="(auto)")
    add("--timeout", type=rate, default=600.0, metavar="SECONDS", help="for a silent rank (600)")
    return p


def read(arguments: list[str]) -> Options:
    """The options of a command line, for the ranks that are there.

    Raises ValueError for what cannot be meant, and where torchrun has described no ranks.
    """
    parsed = parser().parse_args(arguments)
    count = ranks(START)
    if parsed.samples is not None:
        inputs = deal(parsed.samples, count)
    else:
        inputs = tuple(parsed.inputs or range(5, 5 + count))
    if len(inputs) != count:
        raise ValueError(
            f"--inputs names {len(inputs)} ranks, but there are {count}; give one number a rank"
        )
    if not max(inputs):
        raise ValueError("--inputs gives no rank an input; give at least one of them 1 or more")
    if not min(inputs) and parsed.how in ("has-data", "pad"):
        raise ValueError(
            f"--how {parsed.how} needs an input on every rank; give each 1 or more, or use join"
        )
    return typed(Options, parsed, inputs=inputs)


def deal(samples: int, ranks: int) -> tuple[int, ...]:
    """How many of `samples` each rank gets, in turn. Raises ValueError if some would get none."""
    if samples < ranks:
        raise ValueError(
            f"{samples} samples cannot be dealt out to {ranks} ranks; "
            f"use --samples {ranks} or more, or fewer ranks"
        )
    return tuple(len(range(rank, samples, ranks)) for rank in range(ranks))
