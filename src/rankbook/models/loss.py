"""Losses."""

import torch
from torch.nn import functional as F


def token_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean cross entropy over all tokens, in nats: a scalar, float32 (of float64: float64).

    logits: (batch, length, vocab_size), of any float type; targets: (batch, length), ids.
    """
    precise = logits if logits.dtype == torch.float64 else logits.float()
    return F.cross_entropy(precise.flatten(0, 1), targets.flatten())
