"""Rows from every rank to every other, with gradients.

torch's own differentiable one, in torch.distributed.nn.functional, is deprecated.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def all_to_all(
    x: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup | None
) -> Tensor:
    """`x` (rows, ...) lies by destination: `sent[r]` of its rows go to rank r of `group`.

    received: how many rows come from each rank; returns them, by source. The gradients go the way
    back. So a backward pass needs all ranks as well: `x` must want gradients on all or on none.
    """
    return _AllToAll.apply(x, sent, received, group)  # type: ignore[return-value]


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup | None
    ) -> Tensor:
        ctx.back = received, sent, group
        return _swap(x, sent, received, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return _swap(gradients[0], *ctx.back), None, None, None


def _swap(
    x: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup | None
) -> Tensor:
    out = x.new_empty(sum(received), *x.shape[1:])
    dist.all_to_all_single(out, x.contiguous(), received, sent, group=group)
    return out
