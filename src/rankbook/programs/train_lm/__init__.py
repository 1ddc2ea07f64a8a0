"""A Transformer on WikiText-2, on any mesh of pipeline, data and tensor parallelism.

torchrun --standalone --nproc-per-node 8 -m rankbook.programs.train_lm --mesh pp=2,dp=2,tp=2
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.programs.train_lm.run import main

__getattr__, __dir__ = attach(__name__, __file__)
