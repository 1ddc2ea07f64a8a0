"""Losses."""

import torch
from torch.nn import functional as F

IGNORED = -100  # a target that counts nowhere, as torch's cross_entropy has it


def token_loss(
    logits: torch.Tensor, targets: torch.Tensor, count: torch.Tensor | None = None
) -> torch.Tensor:
    """The mean cross entropy over all tokens that count, in nats: a scalar, float32.

    logits: (batch, length, vocab_size), of any float type; of float64 the loss is too. targets:
    (batch, length), ids, or IGNORED. count: a scalar, to divide the sum by instead of their number.
    """
    precise = logits if logits.dtype == torch.float64 else logits.float()
    arguments = precise.flatten(0, 1), targets.flatten()
    if count is None:
        return F.cross_entropy(*arguments)
    return F.cross_entropy(*arguments, reduction="sum") / count
