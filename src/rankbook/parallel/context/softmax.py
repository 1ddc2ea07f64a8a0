"""Attention block by block: softmax over keys that are never seen all at once.

A block gives its result and lse, the logarithm of the sum of the exponentials of its scores. Two
such pairs make the pair of both blocks. Sources: https://arxiv.org/abs/1805.02867 (online softmax);
https://arxiv.org/abs/2205.14135, section 3.1 and appendix B.2 (forward and backward by blocks).
"""

import torch
from torch import Tensor

EMPTY = float("-inf")  # lse of a query that saw no key


def block_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Attention of queries to one block of the keys.

    q: (b, h, lq, d); k, v: (b, h, lk, d), of any float type. mask: bool, True where a query may
    look at a key, broadcast to (b, h, lq, lk); None: everywhere. scale: of the scores, 1/sqrt(d)
    if None.

    Returns y (b, h, lq, d) and lse (b, h, lq), in float32 (float64 of float64): what is to be
    merged is not rounded before. A query that may look at no key has y = 0 and lse = -inf. The
    scores of the block are in memory as a whole: lq x lk of them in each head.
    """
    with torch.autocast(q.device.type, enabled=False):
        scores = _scores(q, k, mask, scale)
        lse = scores.logsumexp(dim=-1)
        return _shares(scores, lse) @ v.to(scores.dtype), lse


def merge(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """What `block_attention` gives for two blocks of keys together, from what it gave for each.

    one, other: (y, lse), of the same queries. No exponential is larger than 1, so none overflows.
    """
    (y, lse), (y_other, lse_other) = one, other
    both = torch.logaddexp(lse, lse_other)
    y = y * _weight(lse, both) + y_other * _weight(lse_other, both)
    return y, both


def block_gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    grad: Tensor,
    lse: Tensor,
    delta: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """What one block of keys adds to the gradients of q, and the gradients of its k and v.

    q, k, v, mask, scale: as for `block_attention`. Of all blocks together: grad (b, h, lq, d), the
    gradient of y; lse (b, h, lq); delta (b, h, lq), the sum over d of grad * y. The weights of the
    block are made again, as they were: exp(scores - lse). The gradients are float32, or float64.
    """
    with torch.autocast(q.device.type, enabled=False):
        scores = _scores(q, k, mask, scale)
        q, k, v, grad = (x.to(scores.dtype) for x in (q, k, v, grad))
        shares = _shares(scores, lse)
        of_scores = shares * (grad @ v.mT - delta[..., None]) * _scale(q, scale)
        return of_scores @ k, of_scores.mT @ q, shares.mT @ grad


def precise(dtype: torch.dtype) -> torch.dtype:
    """The type that sums over blocks are kept in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _scores(q: Tensor, k: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    q, k = (x.to(precise(q.dtype)) for x in (q, k))
    scores = (q * _scale(q, scale)) @ k.mT
    return scores if mask is None else scores.masked_fill(~mask, EMPTY)


def _scale(q: Tensor, scale: float | None) -> float:
    return q.shape[-1] ** -0.5 if scale is None else scale


def _shares(scores: Tensor, lse: Tensor) -> Tensor:
    """exp(scores - lse); 0 where a query saw no key, of which -inf - -inf would make NaN."""
    return (scores - lse.masked_fill(lse == EMPTY, 0.0)[..., None]).exp()


def _weight(lse: Tensor, both: Tensor) -> Tensor:
    return _shares(lse[..., None], both)
