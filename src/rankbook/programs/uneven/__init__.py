"""Train a small language model where the ranks have different numbers of inputs.

torchrun --standalone --nproc-per-node 2 -m rankbook.programs.uneven --inputs 5 6 --how join
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.programs.uneven.run import main

__getattr__, __dir__ = attach(__name__, __file__)
