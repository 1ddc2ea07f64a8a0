"""The options of wrappings: read and checked before any rank is started."""

import os
from dataclasses import dataclass
from itertools import product

from rankbook.parallel import WRAPPINGS, schedule_names
from rankbook.programs.options import Parser, positive, typed


@dataclass(frozen=True)
class Options:
    """schedule, wrapping, microbatches: all to be tried with each other. json: instead of text."""

    schedule: list[str]
    wrapping: list[str]
    microbatches: list[int]
    json: bool

    def trials(self) -> list[tuple[str, str, int]]:
        """(schedule, wrapping, microbatches), in the order in which they are tried."""
        found = product(self.microbatches, self.schedule, self.wrapping)
        return [(schedule, wrapping, count) for count, schedule, wrapping in found]


def parser() -> Parser:
    """What the command line may say."""
    p = Parser(
        prog="python -m rankbook.programs.wrappings",
        description="Try each data-parallel wrapping of a pipeline's stages under each schedule, "
        "on four ranks on this machine, beside the unsplit model. All of it takes a minute or two.",
    )
    add = p.add_argument
    schedules, wrappings = schedule_names(), list(WRAPPINGS)
    add("--schedule", nargs="+", metavar="NAME", default=schedules, choices=schedules,
        help=f"{', '.join(schedules)} (all)")  # fmt: skip
    add("--wrapping", nargs="+", metavar="NAME", default=wrappings, choices=wrappings,
        help=f"{', '.join(map(repr, wrappings))} (all)")  # fmt: skip
    add("--microbatches", nargs="+", type=positive, metavar="N", default=[2, 4, 8],
        help="of each of the two pipelines (2 4 8)")  # fmt: skip
    add("--json", action="store_true", help="one JSON document instead of a table")
    return p


def read(arguments: list[str]) -> Options:
    """The options of a command line. Raises ValueError for what cannot be meant."""
    if "WORLD_SIZE" in os.environ:
        raise ValueError("it starts its four ranks itself; start it with python, not torchrun")
    return typed(Options, parser().parse_args(arguments))
