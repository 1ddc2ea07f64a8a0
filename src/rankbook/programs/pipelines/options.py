"""The options of pipelines: read and checked before any rank waits."""

from dataclasses import dataclass

from rankbook.parallel import schedule_names
from rankbook.programs.options import Parser, positive, ranks, typed

START = "torchrun --standalone --nproc-per-node 2 -m rankbook.programs.pipelines --schedule zbv"


@dataclass(frozen=True)
class Options:
    """schedule: one of `schedule_names()`. microbatches: parts of a batch. ranks: there are."""

    schedule: str
    microbatches: int
    ranks: int


def parser() -> Parser:
    """What the command line may say."""
    p = Parser(
        prog="torchrun ... -m rankbook.programs.pipelines",
        description="Three training steps in a pipeline, beside the same three in one process.",
    )
    names = ", ".join(schedule_names())
    p.add_argument("--schedule", metavar="NAME", default="1f1b", help=f"{names} (1f1b)")
    p.add_argument("--microbatches", type=positive, metavar="N", default=8, help="of a batch (8)")
    return p


def read(arguments: list[str]) -> Options:
    """The options of a command line, for the ranks that are there.

    Raises ValueError for what cannot be meant, and where torchrun has described no ranks.
    """
    return typed(Options, parser().parse_args(arguments), ranks=ranks(START))
