"""Attention within the texts of a batch, padded or packed, written out or by one fused kernel.

Sources: https://arxiv.org/abs/1706.03762, section 3.2;
https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional as F

ATTENTION = ("eager", "sdpa")


class Sequences(NamedTuple):
    """Where the texts of a batch lie; `positions` has the shape of the ids.

    Padded: mask (batch, length), True for real tokens, or None if all are. Packed: offsets
    (batch + 1,), rows (tokens,), the text of each token, and the length of the longest text.
    """

    positions: Tensor
    mask: Tensor | None = None
    offsets: Tensor | None = None
    rows: Tensor | None = None
    longest: int = 0

    @classmethod
    def padded(cls, ids: Tensor, mask: Tensor | None) -> "Sequences":
        """Texts of one length, by padding, with ids (batch, length); `mask` as above."""
        return cls(torch.arange(ids.shape[1], device=ids.device).expand_as(ids), mask)

    @classmethod
    def packed(cls, ids: Tensor, offsets: Tensor, longest: int) -> "Sequences":
        """Texts one after the other, with ids (tokens,); positions start again in each.

        offsets: (batch + 1,), where each begins. longest: the length of the longest, in tokens.
        """
        token = torch.arange(ids.shape[0], device=ids.device)
        # by search: to repeat each text's number as often as it is long, a GPU would have to wait
        rows = torch.bucketize(token, offsets[1:], right=True)
        return cls(token - offsets[rows], None, offsets, rows, longest)


def attend(
    q: Tensor, k: Tensor, v: Tensor, texts: Sequences, attention: str, dropout: float
) -> Tensor:
    """Attention of all heads: q, k, v and the result are (..., heads, d_head).

    attention: "eager" makes all weights, then uses them; "sdpa" is torch's, which need not.
    dropout: the share of the weights that is dropped. Packed texts take the best way there is:
    a CPU goes from text to text, a GPU uses a kernel that knows where texts end.
    """
    if texts.offsets is None:
        mask = None if texts.mask is None else texts.mask[:, None, None, :]
        return _heads_first(q, k, v, mask, attention, dropout)
    if q.device.type == "cpu" and not torch.compiler.is_compiling():
        return _one_by_one(q, k, v, texts, attention, dropout)
    if q.device.type == "cpu" or attention == "eager":
        return _padded_inside(q, k, v, texts, attention, dropout)
    if q.dtype in (torch.float16, torch.bfloat16) and dropout == 0.0:
        from torch.nn.attention.varlen import varlen_attn

        ends, longest = texts.offsets, texts.longest
        return cast(Tensor, varlen_attn(q, k, v, ends, ends, longest, longest))
    return _jagged(q, k, v, texts, dropout)


def _heads_first(q, k, v, mask: Tensor | None, attention: str, dropout: float) -> Tensor:
    """Attention of (batch, length, heads, d_head); mask (batch, 1, 1, length)."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if attention == "sdpa":
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    else:
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        y = F.dropout(scores.softmax(dim=-1), dropout) @ v
    return y.transpose(1, 2)


def _one_by_one(q, k, v, texts: Sequences, attention: str, dropout: float) -> Tensor:
    """No padding at all: on a CPU several times quicker than torch's nested tensors are there."""
    assert texts.offsets is not None
    lengths = texts.offsets.diff().tolist()
    # as batches of one text: torch has no fused kernel for less than four dimensions
    parts = zip(*(x[None].split(lengths, dim=1) for x in (q, k, v)), strict=True)
    outputs = [
        _heads_first(*of_one, mask=None, attention=attention, dropout=dropout) for of_one in parts
    ]
    return torch.cat(outputs, dim=1)[0]


def _padded_inside(q, k, v, texts: Sequences, attention: str, dropout: float) -> Tensor:
    """Pad for the attention alone: without a kernel for it, and without asking the device."""
    assert texts.offsets is not None
    offsets = texts.offsets
    batch, here = offsets.shape[0] - 1, (texts.rows, texts.positions)

    def pad(x: Tensor) -> Tensor:
        return x.new_zeros(batch, texts.longest, *x.shape[1:]).index_put(here, x)

    place = torch.arange(texts.longest, device=q.device)
    mask = (place < offsets.diff()[:, None])[:, None, None, :]
    return _heads_first(pad(q), pad(k), pad(v), mask, attention, dropout)[here]


def _jagged(q, k, v, texts: Sequences, dropout: float) -> Tensor:
    """By nested tensors: their kernels take 32 bits, and dropout, which varlen_attn does not."""
    nested = (
        torch.nested.nested_tensor_from_jagged(
            x, texts.offsets, min_seqlen=1, max_seqlen=texts.longest
        ).transpose(1, 2)
        for x in (q, k, v)
    )
    y = F.scaled_dot_product_attention(*nested, dropout_p=dropout)
    return y.transpose(1, 2).values()
