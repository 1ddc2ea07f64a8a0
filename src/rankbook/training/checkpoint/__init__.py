"""Checkpoints that are whole or absent, of one process, of replicas, shards and pipelines.

All kinds are used alike, on all ranks::

    checkpoints = Checkpoints(folder)  # or Sharded-, Pipeline-, ReplicaCheckpoints
    if saved := checkpoints.newest():
        position = saved.load_into(model, optimizer)
    ...
    checkpoints.save(step, capture(model, optimizer, position))  # or capture_stages, _replica
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

# imported when asked for: torch.distributed.checkpoint is slow to import, and every worker of an
# elastic job starts again with each change of the world
if TYPE_CHECKING:
    from rankbook.training.checkpoint.errors import CheckpointError
    from rankbook.training.checkpoint.fence import Superseded
    from rankbook.training.checkpoint.pipeline import PipelineCheckpoints, capture_stages
    from rankbook.training.checkpoint.replicas import Replica, ReplicaCheckpoints, capture_replica
    from rankbook.training.checkpoint.sharded import ShardedCheckpoints
    from rankbook.training.checkpoint.single import Checkpoints
    from rankbook.training.checkpoint.state import capture, restore
    from rankbook.training.checkpoint.store import Saved, Store

__getattr__, __dir__ = attach(__name__, __file__)
