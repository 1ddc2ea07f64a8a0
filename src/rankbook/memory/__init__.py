"""What a training step holds in a rank's memory: watched operation by operation, and by formula.

::

    shape = ModelShape.of(config)
    memory_of(shape, Setup(tp=2, zero=3, dp=2, checkpointing="layers")).total   # bytes
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.memory.caching import CachingAllocator, OutOfMemory
    from rankbook.memory.cures import checkpoint_layers
    from rankbook.memory.formula import fullest, memory_of
    from rankbook.memory.gradients import loss_and_gradients
    from rankbook.memory.ledger import Ledger
    from rankbook.memory.limiting import memory_limit
    from rankbook.memory.live import LiveStep, prepare
    from rankbook.memory.model_shape import ModelShape
    from rankbook.memory.recording import record_step
    from rankbook.memory.resident import PeakMemory
    from rankbook.memory.setup import CHECKPOINTING, OFFLOADED, PRECISIONS, Setup
    from rankbook.memory.states import model_states
    from rankbook.memory.tape import Tape
    from rankbook.memory.terms import Term, Terms

__getattr__, __dir__ = attach(__name__, __file__)
