"""Training recipes of a film review classifier, timed one factor at a time.

python -m rankbook.programs.speed --ladder cpu
torchrun --standalone --nproc-per-node 2 -m rankbook.programs.speed --recipe sdpa --strategy fsdp2
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.programs.speed.run import main

__getattr__, __dir__ = attach(__name__, __file__)
