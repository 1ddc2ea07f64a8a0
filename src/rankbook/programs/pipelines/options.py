"""The options of pipelines: read and checked before any rank waits."""

from dataclasses import dataclass

from rankbook.parallel.pipeline import schedule_names
from rankbook.programs.number_types import positive_int
from rankbook.programs.options import Parser, from_namespace, option, world_size_from_env

START = "torchrun --standalone --nproc-per-node 2 -m rankbook.programs.pipelines --schedule zbv"


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the pipeline is run, and on how many ranks there are."""

    schedule: str = option(
        default="1f1b", metavar="NAME", help=f"{', '.join(schedule_names())} (1f1b)"
    )
    microbatches: int = option(positive_int, 8, metavar="N", help="of a batch (8)")
    ranks: int


def parser() -> Parser:
    """What the command line may say."""
    return Parser(
        "torchrun ... -m rankbook.programs.pipelines",
        "Three training steps in a pipeline, beside the same three in one process.",
        Options,
    )


def read(arguments: list[str]) -> Options:
    """The options of a command line, for the ranks that are there.

    Raises ValueError for what cannot be meant, and where torchrun has described no ranks.
    """
    parsed = parser().parse_args(arguments)
    return from_namespace(Options, parsed, ranks=world_size_from_env(START))
