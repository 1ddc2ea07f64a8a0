"""Three training steps in a pipeline, beside the same three in one process.

torchrun --standalone --nproc-per-node 2 -m rankbook.programs.pipelines --schedule zbv
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.programs.pipelines.run import main

__getattr__, __dir__ = attach(__name__, __file__)
