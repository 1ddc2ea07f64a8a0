"""When replicas meet: in every step, compressed, or once in many steps.

::

    sync = DiLoCo(model.parameters(), every=100)
    for tokens, targets in batches_of_this_replica:
        optimizer.zero_grad()
        loss_of(model(tokens), targets).backward()
        optimizer.step()
        sync.step()  # after each inner step; in every hundredth the replicas meet
    sync.sent  # bytes that this rank has sent
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.parallel.sync.compressors import EightBit, Sign, TopK
    from rankbook.parallel.sync.exchange import Exchange
    from rankbook.parallel.sync.feedback import ErrorFeedback
    from rankbook.parallel.sync.fragments import cut_evenly, is_due
    from rankbook.parallel.sync.gradients import CompressedGradients
    from rankbook.parallel.sync.outer import DiLoCo, LocalSGD, nesterov, plain

__getattr__, __dir__ = attach(__name__, __file__)
