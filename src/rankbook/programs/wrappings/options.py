"""The options of wrappings: read and checked before any rank is started."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from rankbook.parallel.pipeline import schedule_names
from rankbook.parallel.trials import WRAPPINGS
from rankbook.programs.number_types import positive_int
from rankbook.programs.options import Parser, from_namespace, option

SCHEDULES = tuple(schedule_names())


@dataclass(frozen=True, kw_only=True)
class Options:
    """schedule, wrapping, microbatches: all to be tried with each other. json: instead of text."""

    schedule: Sequence[str] = option(
        default=SCHEDULES, nargs="+", metavar="NAME", choices=SCHEDULES,
        help=f"{', '.join(SCHEDULES)} (all)",
    )  # fmt: skip
    wrapping: Sequence[str] = option(
        default=tuple(WRAPPINGS), nargs="+", metavar="NAME", choices=WRAPPINGS,
        help=f"{', '.join(map(repr, WRAPPINGS))} (all)",
    )  # fmt: skip
    microbatches: Sequence[int] = option(
        positive_int, (2, 4, 8), nargs="+", metavar="N", help="of each of the two pipelines (2 4 8)"
    )
    json: bool = option(bool, help="one JSON document instead of a table")

    def trials(self) -> list[tuple[str, str, int]]:
        """(schedule, wrapping, microbatches), in the order in which they are tried."""
        found = product(self.microbatches, self.schedule, self.wrapping)
        return [(schedule, wrapping, count) for count, schedule, wrapping in found]


def parser() -> Parser:
    """What the command line may say."""
    return Parser(
        "python -m rankbook.programs.wrappings",
        "Try each data-parallel wrapping of a pipeline's stages under each schedule, on four ranks "
        "on this machine, beside the unsplit model. All of it takes a minute or two.",
        Options,
    )


def read(arguments: list[str]) -> Options:
    """The options of a command line. Raises ValueError for what cannot be meant."""
    if "WORLD_SIZE" in os.environ:
        raise ValueError("it starts its four ranks itself; start it with python, not torchrun")
    return from_namespace(Options, parser().parse_args(arguments))
