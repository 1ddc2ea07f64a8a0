"""The three programs of the text on training faster, written anew: loop, Trainer and Fabric.

They keep its settings and the order of its calls, mistakes included: `rankbook.speed.loop` is the
book's own. `tests/originals` runs them beside the text's listings, batch by batch.
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from originals.faster_text.by_fabric import fabric_program
    from originals.faster_text.by_loop import plain_program
    from originals.faster_text.by_trainer import trainer_program
    from originals.faster_text.common import Accuracies, WithLoss, loaders, padded

__getattr__, __dir__ = attach(__name__, __file__)
