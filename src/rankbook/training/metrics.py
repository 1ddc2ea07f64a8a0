"""How well a language model predicts: losses weighted by tokens, and what to compare them with."""

import math
from collections.abc import Callable, Iterable

import torch

from rankbook.models.loss import IGNORED


def mean_loss(
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
) -> float:
    """The mean loss per token over all `batches`, in nats.

    loss_of: (tokens, targets) to the mean over that batch's tokens, a scalar. A batch counts by
    its targets that are not `IGNORED`, so a shorter last one counts for less. Raises ValueError
    without batches.
    """
    total, tokens = 0.0, 0
    for inputs, targets in batches:
        # kept on the device until the end: asking for each value would make a GPU wait
        counted = int((targets != IGNORED).sum())
        total = total + loss_of(inputs, targets).double() * counted
        tokens += counted
    if not tokens:
        raise ValueError("there are no batches, so there is no mean loss; use a longer text")
    return float(total) / tokens


def perplexity(loss: float) -> float:
    """e to the mean loss in nats: among how many equally likely tokens the model would choose."""
    return math.exp(loss) if loss < 700 else math.inf


def unigram_loss(train: torch.Tensor, ids: torch.Tensor, vocab_size: int) -> float:
    """The mean loss on `ids` (1-D), in nats, of a model that knows only how often a token occurs.

    It counts the tokens of `train` (1-D), and each of the `vocab_size` once more, so that none is
    impossible (Laplace's rule). A language model that does not beat it has learnt no context.
    """
    counts = torch.bincount(train.flatten(), minlength=vocab_size).double() + 1
    return -(counts / counts.sum()).log()[ids.flatten()].mean().item()
