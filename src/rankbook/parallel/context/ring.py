"""Ring attention: queries stay, keys and values travel round the ranks, block by block.

Forward, each rank merges what its queries find in the block that is just here. Backward, blocks go
round again, and the gradients of a block travel with it, growing, until they are home.
Source: https://arxiv.org/abs/2310.01889
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from rankbook.parallel.context.blocks import check, visible
from rankbook.parallel.context.order import stretches
from rankbook.parallel.context.softmax import (
    EMPTY,
    block_attention,
    block_gradients,
    merge,
    precise,
)
from rankbook.parallel.context.travel import ring_send_recv


def ring_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    group: dist.ProcessGroup | None = None,
    order: str = "zigzag",
    documents: Tensor | None = None,
) -> Tensor:
    """Causal attention over sequences that are cut among the ranks of `group`; exact.

    q, k, v: (batch, heads, length / ranks, d_head), of this rank's tokens in the order that
    `shard` gives them; order: "zigzag" or "blocks". documents: int, (length,) or (batch, length),
    of the whole sequences and the same on all ranks: the number of the text that each token is of,
    where several are packed in a row. Returns this rank's part of the result, as large and of the
    type of q. All ranks must call it, and, for gradients, all must go backward. Blocks in which the
    masks leave no pair are not computed, but they travel on.

    Sums over blocks are kept, and gradients travel, in float32 even of bfloat16 (float64 of
    float64). Raises ValueError where shapes do not suit.
    """
    ranks = dist.get_world_size(group)
    check(q, k, v, ranks, documents)
    stretches(q.shape[2] * ranks, ranks, 0, order)  # raises for what cannot be cut
    return _Ring.apply(q, k, v, group, order, documents)  # type: ignore[return-value]


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, group: Any, order: str, documents: Tensor | None
    ) -> Tensor:
        ctx.group, ctx.order, ctx.documents = group, order, documents
        ranks, rank = dist.get_world_size(group), dist.get_rank(group)
        y = torch.zeros_like(q, dtype=precise(q.dtype))
        lse = torch.full_like(q[..., 0], EMPTY, dtype=y.dtype)
        travelling = torch.stack([k, v])  # one message each time
        for step in range(ranks):
            # on its way already while this rank works
            coming = ring_send_recv(travelling, group) if step < ranks - 1 else None
            for rows, columns, mask in _visible(ctx, q, (rank - step) % ranks):
                k_there, v_there = travelling[..., columns, :]
                found = block_attention(q[:, :, rows], k_there, v_there, mask)
                before = y[:, :, rows], lse[:, :, rows]
                y[:, :, rows], lse[:, :, rows] = merge(before, found)
            if coming:
                travelling = coming.wait()
        result = y.to(q.dtype)
        ctx.save_for_backward(q, k, v, y, lse)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor):  # pyrefly: ignore[bad-override]
        q, k, v, y, lse = ctx.saved_tensors
        ranks, rank = dist.get_world_size(ctx.group), dist.get_rank(ctx.group)
        grad = grads[0].to(y.dtype)
        delta = (grad * y).sum(dim=-1)
        of_q, travelling, home = torch.zeros_like(y), torch.stack([k, v]), None
        of_block = torch.zeros_like(travelling, dtype=y.dtype)
        for step in range(ranks):
            coming = ring_send_recv(travelling, ctx.group) if step < ranks - 1 else None
            of_block = torch.zeros_like(of_block)
            for rows, columns, mask in _visible(ctx, q, (rank - step) % ranks):
                k_there, v_there = travelling[..., columns, :]
                known = grad[:, :, rows], lse[:, :, rows], delta[:, :, rows]
                found = block_gradients(q[:, :, rows], k_there, v_there, *known, mask)
                of_q[:, :, rows] += found[0]
                of_block[..., columns, :] += torch.stack(found[1:])
            if home:  # what the ranks before have found for this block
                of_block += home.wait()
            # after the last step, the block that is here is the next rank's own
            home = ring_send_recv(of_block, ctx.group) if ranks > 1 else None
            if coming:
                travelling = coming.wait()
        of_k, of_v = home.wait() if home else of_block
        return of_q.to(q.dtype), of_k.to(k.dtype), of_v.to(v.dtype), None, None, None


def _visible(ctx: Any, q: Tensor, owner: int):
    ranks, rank = dist.get_world_size(ctx.group), dist.get_rank(ctx.group)
    whole = q.shape[2] * ranks
    return visible(whole, ranks, rank, owner, ctx.order, ctx.documents, q.device)
