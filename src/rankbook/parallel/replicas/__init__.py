"""Data parallelism: gradients averaged by hand, and a recorder of DDP's buckets."""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.parallel.replicas.averaging import average_gradients
    from rankbook.parallel.replicas.recorder import BackwardPass, OverlapRecorder

__getattr__, __dir__ = attach(__name__, __file__)
