"""The options of uneven: read and checked before anything is loaded or any rank waits."""

from dataclasses import dataclass

from rankbook.programs.number_types import nonnegative_int, positive_float, positive_int
from rankbook.programs.options import (
    Parser,
    backend_option,
    from_namespace,
    option,
    timeout_option,
    world_size_from_env,
)
from rankbook.training import WAYS

START = "torchrun --standalone --nproc-per-node 2 -m rankbook.programs.uneven --inputs 5 6"


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to train; checked. inputs: of each rank, in their order."""

    how: str = option(default="join", choices=WAYS, help="what to do about it (join)")
    inputs: tuple[int, ...] = option(
        nonnegative_int, group="what", nargs="+", metavar="N", help="of each rank (5, 6, 7, ...)"
    )
    samples: int | None = option(
        positive_int, group="what", metavar="N", help="inputs, dealt out to all"
    )
    epochs: int = option(positive_int, 3, help="(3)")
    lr: float = option(positive_float, 0.5, help="the learning rate of SGD (0.5)")
    seed: int = option(int, 0, help="of the parameters (0)")
    backend: str = backend_option()
    timeout: float = timeout_option()


def parser() -> Parser:
    """What the command line may say."""
    return Parser(
        "torchrun ... -m rankbook.programs.uneven",
        "Train on ranks that have different numbers of inputs, in one of several ways.",
        Options,
    )


def read(arguments: list[str]) -> Options:
    """The options of a command line, for the ranks that are there.

    Raises ValueError for what cannot be meant, and where torchrun has described no ranks.
    """
    parsed = parser().parse_args(arguments)
    count = world_size_from_env(START)
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
    return from_namespace(Options, parsed, inputs=inputs)


def deal(samples: int, ranks: int) -> tuple[int, ...]:
    """How many of `samples` each rank gets, in turn. Raises ValueError if some would get none."""
    if samples < ranks:
        raise ValueError(
            f"{samples} samples cannot be dealt out to {ranks} ranks; "
            f"use --samples {ranks} or more, or fewer ranks"
        )
    return tuple(len(range(rank, samples, ranks)) for rank in range(ranks))
