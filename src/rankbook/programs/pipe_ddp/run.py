"""Pipe + DDP on WikiText-2: pipelines of stages, replicas of the pipelines.

torchrun --standalone --nproc-per-node 4 -m rankbook.programs.pipe_ddp --stages 2 --replicas 2

It is `rankbook.programs.train_lm` with ``--mesh pp=2,dp=2``, with the options of *WikiText-2
for real*.
"""

import sys

from rankbook.core.placement import init
from rankbook.programs.options import world_size_from_env
from rankbook.programs.pipe_ddp.options import as_mesh, make_plan, read
from rankbook.programs.train_lm.options import Options
from rankbook.programs.train_lm.run import work

START = "torchrun --standalone --nproc-per-node 4 -m rankbook.programs.pipe_ddp"


def main(arguments: list[str] | None = None) -> dict:
    """Train as the options say, on every rank; return the losses, in nats per token."""
    words = sys.argv[1:] if arguments is None else arguments

    def options() -> Options:
        own = read(words)
        return as_mesh(own, make_plan(own, world_size_from_env(START)))

    return work("pipe_ddp", options, init)
