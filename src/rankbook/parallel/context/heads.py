"""Attention with the heads cut instead of the sequence: all-to-all before it, and after it.

Each rank gives away its tokens of most heads, and gets all tokens of a few. In between, attention
is that of one process, by torch's fused kernels. Source: DeepSpeed-Ulysses,
https://arxiv.org/abs/2309.14509
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from rankbook.comm.differentiable import all_to_all
from rankbook.parallel.context.blocks import check
from rankbook.parallel.context.order import shard, unshard


def heads_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    group: dist.ProcessGroup | None = None,
    order: str = "zigzag",
    documents: Tensor | None = None,
) -> Tensor:
    """Causal attention over sequences that are cut among the ranks of `group`; exact.

    Arguments, result and conditions as of `ring_attention`; the heads must be divisible by the
    ranks, too: ValueError says so. `order` changes nothing in the work, which is balanced anyway.
    """
    ranks = dist.get_world_size(group)
    check(q, k, v, ranks, documents)
    if q.shape[1] % ranks:
        raise ValueError(
            f"{q.shape[1]} heads are not divided among {ranks} ranks; use a divisor of the heads, "
            "or ring_attention, which cuts no heads"
        )
    q, k, v = _to_heads(torch.stack([q, k, v]), group, ranks, order)
    if documents is None:
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=_mask(documents, q.device))
    return _to_tokens(y[None], group, ranks, order)[0]


def _to_heads(x: Tensor, group: Any, ranks: int, order: str) -> Tensor:
    """(n, batch, heads, length here, d) to (n, batch, heads here, length, d)."""
    shares = torch.stack(x.chunk(ranks, dim=2))  # by the rank that gets it
    return unshard(_swap(shares, group).unbind(), order, dim=3)


def _to_tokens(x: Tensor, group: Any, ranks: int, order: str) -> Tensor:
    """The other way: (n, batch, heads here, length, d) to (n, batch, heads, length here, d)."""
    shares = torch.stack([shard(x, ranks, rank, order, dim=3) for rank in range(ranks)])
    return torch.cat(_swap(shares, group).unbind(), dim=2)


def _mask(documents: Tensor, device: torch.device) -> Tensor:
    whole = (documents if documents.dim() == 2 else documents[None]).to(device)
    same = whole[:, None, :, None] == whole[:, None, None, :]
    return same & torch.ones_like(same[0, 0]).tril()


def _swap(shares: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """Share r of `shares` goes to rank r; share s of the result came from rank s."""
    one_each = [1] * len(shares)
    return shares if len(shares) == 1 else all_to_all(shares, one_each, one_each, group)
