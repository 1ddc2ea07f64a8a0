"""Losses."""

import torch
from torch.nn import functional as F


def token_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean cross entropy over all tokens, in nats: a scalar, float32.

    logits: (batch, length, vocab_size), of any float type; targets: (batch, length), ids.
    """
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
