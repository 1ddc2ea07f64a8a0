"""Training: batches of a long text, one step, token-weighted losses, checkpoints."""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

# imported when asked for: some need torch's pipelining, which is slow
if TYPE_CHECKING:
    from rankbook.training.batches import (
        batchify,
        count_batches,
        get_batch,
        padded,
        steps_of_epoch,
        training_batch,
        windows,
    )
    from rankbook.training.loop import evaluate, learning_rate, seed_step, train_step
    from rankbook.training.metrics import mean_loss, perplexity, unigram_loss
    from rankbook.training.microsteps import Microstep, equal_steps
    from rankbook.training.uneven import WAYS, train_uneven, uneven_reference, weigh_inputs

__getattr__, __dir__ = attach(__name__, __file__)
