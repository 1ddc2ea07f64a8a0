"""Models larger than one device: pipeline, data and tensor parallelism on one mesh of ranks.

::

    layout = Layout.parse("pp=2,dp=2,tp=2", shard="fsdp")
    part = build(config, layout, device)
    loss, norm = train_step(part, optimizer, tokens, targets, max_norm=0.5)
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.mesh.building import build
    from rankbook.mesh.layout import Layout
    from rankbook.mesh.sharded_model import ShardedModel
    from rankbook.mesh.stepping import train_step
    from rankbook.mesh.tensor import tensor_parallel
    from rankbook.mesh.trials import try_layout
    from rankbook.mesh.variants import LAYOUT_VARIANTS
    from rankbook.mesh.vocabulary import vocabulary_loss
    from rankbook.parallel.clipping import clip_grad_norm

__getattr__, __dir__ = attach(__name__, __file__)
