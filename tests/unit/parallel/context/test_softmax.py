"""Attention by blocks is attention, and its gradients are autograd's."""

import pytest
import torch
from torch.nn import functional as F

from rankbook.parallel.context import block_attention, block_gradients, merge

SHAPE = (2, 3, 12, 4)  # batch, heads, length, d_head
# float64 rounds by 2^-53 at each of some tens of additions of numbers of about 1
TOLERANCE = {"rtol": 0.0, "atol": 1e-14}


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def qkv():
    return [random(*SHAPE, seed=seed) for seed in range(3)]


def causal(length):
    return torch.ones(length, length, dtype=torch.bool).tril()


def test_one_block_is_attention():
    q, k, v = qkv()
    y, lse = block_attention(q, k, v, causal(12))
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(y, expected, **TOLERANCE)
    first = (q[..., 0, :] * k[..., 0, :]).sum(-1) / 2  # it sees one key, itself
    torch.testing.assert_close(lse[..., 0], first, **TOLERANCE)


def test_a_scale_of_ones_own():
    q, k, v = qkv()
    y, _ = block_attention(q, k, v, scale=0.3)
    expected = F.scaled_dot_product_attention(q, k, v, scale=0.3)
    torch.testing.assert_close(y, expected, **TOLERANCE)


@pytest.mark.parametrize("cuts", [[6, 6], [1, 11], [5, 4, 3]])
def test_merged_blocks_are_attention_in_any_order(cuts):
    q, k, v = qkv()
    parts = zip(k.split(cuts, 2), v.split(cuts, 2), causal(12).split(cuts, 1), strict=True)
    blocks = [block_attention(q, *part) for part in parts]
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    for ordered in (blocks, blocks[::-1]):  # reversed: the first queries have seen nothing yet
        found = ordered[0]
        for block in ordered[1:]:
            found = merge(found, block)
        torch.testing.assert_close(found[0], expected, **TOLERANCE)


def test_who_sees_no_key_has_nothing_and_adds_nothing():
    q, k, v = qkv()
    nothing = block_attention(q, k, v, torch.zeros(12, 12, dtype=torch.bool))
    assert not nothing[0].any() and (nothing[1] == float("-inf")).all()
    assert all(torch.equal(a, b) for a, b in zip(merge(nothing, nothing), nothing, strict=True))
    something = block_attention(q, k, v)
    for merged in (merge(nothing, something), merge(something, nothing)):
        assert all(torch.equal(a, b) for a, b in zip(merged, something, strict=True))


def test_large_scores_do_not_overflow():
    q, k, v = (x.float() * size for x, size in zip(qkv(), (100, 100, 1), strict=True))
    assert (q @ k.mT).max() > 2 * 89  # exp of half of it is infinite in float32
    y, _ = merge(
        block_attention(q, k[..., :5, :], v[..., :5, :]),
        block_attention(q, k[..., 5:, :], v[..., 5:, :]),
    )
    expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double())
    # scores of up to 1e5 are rounded by 2^-24 of their size
    torch.testing.assert_close(y.double(), expected, rtol=0, atol=0.05)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_what_is_merged_is_not_rounded_before(dtype):
    q, k, v = (x.to(dtype) for x in qkv())
    with torch.autocast("cpu", torch.bfloat16):  # which would make matrix products coarse
        y, lse = block_attention(q, k, v)
    assert y.dtype == lse.dtype == torch.float32
    expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double())
    torch.testing.assert_close(y.double(), expected, rtol=0, atol=1e-6)


def test_gradients_by_blocks_are_autograds():
    q, k, v = (x.requires_grad_() for x in qkv())
    grad = random(*SHAPE, seed=9)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    y.backward(grad)
    _, lse = block_attention(q, k, v, causal(12))
    delta = (grad * y).sum(-1)
    of_q, of_k, of_v = torch.zeros_like(q), [], []
    for keys in (slice(0, 5), slice(5, 12)):
        block = k[..., keys, :], v[..., keys, :]
        found = block_gradients(q, *block, grad, lse, delta, causal(12)[:, keys])
        of_q += found[0]
        of_k.append(found[1])
        of_v.append(found[2])
    for found, of in ((of_q, q), (torch.cat(of_k, 2), k), (torch.cat(of_v, 2), v)):
        torch.testing.assert_close(found, of.grad, rtol=0, atol=1e-13)
