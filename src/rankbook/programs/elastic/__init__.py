"""Train on ranks that may come, go and die: the run is a function of its seed and its steps.

TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nnodes 1:3 --nproc-per-node 2 --max-restarts 3 \
    --rdzv-backend c10d --rdzv-endpoint HOST:29400 --rdzv-id 1 \
    -m rankbook.programs.elastic --checkpoint DIR

The variable is for torch 2.13, which cannot let a node join without it.
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.programs.elastic.run import main

__getattr__, __dir__ = attach(__name__, __file__)
