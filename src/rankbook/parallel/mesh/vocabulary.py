"""Cross entropy of logits whose vocabulary is cut among ranks, without gathering them.

Source: https://arxiv.org/abs/1909.08053, section 3.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from rankbook.models.loss import IGNORED


def vocabulary_loss(vocab_size: int, group: dist.ProcessGroup) -> Callable[..., torch.Tensor]:
    """The loss for `vocab_size` entries, of which each rank of `group` has a stretch, in order.

    Returns (logits, targets, count=None) -> loss, on all ranks alike. logits: (batch, length,
    entries here); targets: (batch, length), ids of the whole vocabulary, or -100 where nothing is
    to be predicted; count: what to divide the sum over the others by, their number if None. The
    loss, in nats, is a scalar, float32 (of float64: float64).
    Three numbers a token are exchanged, whatever the vocabulary.
    """
    most = -(-vocab_size // dist.get_world_size(group))  # torch's chunks: the last has fewer
    start = most * dist.get_rank(group)

    def loss(
        logits: torch.Tensor, targets: torch.Tensor, count: torch.Tensor | None = None
    ) -> torch.Tensor:
        precise = logits if logits.dtype == torch.float64 else logits.float()
        count = (targets != IGNORED).sum() if count is None else count
        arguments = precise.flatten(0, 1), targets.flatten(), count, start, group
        return _CutCrossEntropy.apply(*arguments)  # type: ignore[return-value]

    return loss


class _CutCrossEntropy(torch.autograd.Function):
    """Sum of log(sum(exp(logits))) - logit of the target, by `count`; of a row, some are here."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: torch.Tensor,
        targets: torch.Tensor,
        count: torch.Tensor,
        start: int,
        group: dist.ProcessGroup,
    ) -> torch.Tensor:
        counted = targets != IGNORED
        here = counted & (targets >= start) & (targets < start + logits.shape[1])
        highest = logits.amax(dim=1)
        dist.all_reduce(highest, dist.ReduceOp.MAX, group)
        shares = (logits - highest[:, None]).exp_()
        place = torch.where(here, targets - start, 0)[:, None]
        of_target = torch.where(here, logits.gather(1, place)[:, 0] - highest, 0.0)
        both = torch.stack([shares.sum(dim=1), of_target])
        dist.all_reduce(both, group=group)
        total, of_target = both
        shares /= total[:, None]
        ctx.save_for_backward(shares, place, here, counted, count)
        losses = torch.where(counted, total.log() - of_target, 0.0)
        return losses.sum() / count

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        shares, place, here, counted, count = ctx.saved_tensors
        gradient = shares.scatter_add(1, place, -here[:, None].to(shares.dtype))
        gradient *= (counted / count)[:, None] * gradients[0]
        return gradient, None, None, None, None
