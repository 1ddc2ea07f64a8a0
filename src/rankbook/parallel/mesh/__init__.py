"""Models larger than one device: pipeline, data and tensor parallelism on one mesh of ranks.

::

    layout = Layout.parse("pp=2,dp=2,tp=2", shard="fsdp")
    part = build(config, layout, device)
    loss, norm = train_step(part, optimizer, tokens, targets, max_norm=0.5)
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.parallel.mesh.building import build
    from rankbook.parallel.mesh.clipping import clip_grad_norm
    from rankbook.parallel.mesh.layout import Layout
    from rankbook.parallel.mesh.sharded_model import ShardedModel
    from rankbook.parallel.mesh.stepping import train_step
    from rankbook.parallel.mesh.tensor import tensor_parallel
    from rankbook.parallel.mesh.vocabulary import vocabulary_loss

__getattr__, __dir__ = attach(__name__, __file__)
