"""What a training step holds in a rank's memory: watched operation by operation, and by formula.

::

    shape = ModelShape.of(config)
    memory_of(shape, Setup(tp=2, zero=3, dp=2, checkpointing="layers")).total   # bytes
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.predict.memory.caching import CachingAllocator, OutOfMemory
    from rankbook.predict.memory.cures import checkpoint_layers
    from rankbook.predict.memory.formula import fullest, memory_of
    from rankbook.predict.memory.gradients import loss_and_gradients
    from rankbook.predict.memory.ledger import Ledger
    from rankbook.predict.memory.limiting import memory_limit
    from rankbook.predict.memory.live import LiveStep, prepare
    from rankbook.predict.memory.model_shape import ModelShape
    from rankbook.predict.memory.recording import record_step
    from rankbook.predict.memory.resident import PeakMemory
    from rankbook.predict.memory.setup import CHECKPOINTING, OFFLOADED, PRECISIONS, Setup
    from rankbook.predict.memory.states import model_states
    from rankbook.predict.memory.tape import Tape
    from rankbook.predict.memory.terms import Term, Terms

__getattr__, __dir__ = attach(__name__, __file__)
