"""Pipe + DDP on WikiText-2: pipelines of stages, replicas of the pipelines.

torchrun --standalone --nproc-per-node 4 -m rankbook.programs.pipe_ddp --stages 2 --replicas 2
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.programs.pipe_ddp.run import main

__getattr__, __dir__ = attach(__name__, __file__)
