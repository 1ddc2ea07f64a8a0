"""Training: batches of a long text, one step, token-weighted losses, checkpoints."""

from rankbook.later import later

# imported when asked for, as in rankbook.parallel: some need torch's pipelining, which is slow
_LATER = {
    "windows": "batches",
    "batchify": "batches",
    "count_batches": "batches",
    "evaluate": "loop",
    "get_batch": "batches",
    "learning_rate": "loop",
    "load_checkpoint": "checkpoint",
    "mean_loss": "metrics",
    "perplexity": "metrics",
    "save_checkpoint": "checkpoint",
    "seed_step": "loop",
    "token_loss": "loss",
    "train_step": "loop",
    "training_batch": "batches",
    "unigram_loss": "metrics",
    "Turn": "turns",
    "WAYS": "uneven",
    "lockstep": "turns",
    "train_uneven": "uneven",
    "uneven_reference": "uneven",
    "weigh_inputs": "uneven",
}

__all__ = [*_LATER]
__getattr__ = later(__name__, _LATER)


def __dir__() -> list[str]:
    return __all__
