"""The blocks that are looked at have every pair of the mask, once, and no block is empty."""

import pytest
import torch

from rankbook.parallel.context import ORDERS, positions
from rankbook.parallel.context.blocks import visible

LENGTH, RANKS = 16, 4
TEXTS = torch.tensor([0] * 5 + [1] * 4 + [2] * 7)


@pytest.mark.parametrize("documents", [None, TEXTS, torch.stack([TEXTS, TEXTS.flip(0)])])
@pytest.mark.parametrize("order", ORDERS)
def test_every_pair_once(order, documents):
    rows = 1 if documents is None or documents.dim() == 1 else len(documents)
    mask = torch.ones(LENGTH, LENGTH).tril().expand(rows, -1, -1)
    if documents is not None:
        numbers = documents.expand(rows, -1)
        mask = mask * (numbers[:, :, None] == numbers[:, None, :])
    seen = torch.zeros(rows, LENGTH, LENGTH)
    for rank in range(RANKS):
        for owner in range(RANKS):
            for block in visible(LENGTH, RANKS, rank, owner, order, documents):
                ours = positions(LENGTH, RANKS, rank, order)[block.rows]
                theirs = positions(LENGTH, RANKS, owner, order)[block.columns]
                pairs = torch.ones(rows, len(ours), len(theirs))
                if block.mask is not None:
                    pairs = pairs * block.mask.view(-1, len(ours), len(theirs))
                assert pairs.any()
                seen[:, ours[:, None], theirs] += pairs
    assert torch.equal(seen, mask)


def test_a_later_block_is_not_looked_at():
    looked_at = [[len(list(visible(16, 4, r, o, "blocks"))) for o in range(4)] for r in range(4)]
    assert looked_at == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def test_in_zigzag_order_all_ranks_look_at_as_many():
    """Two of four pairs of stretches in every step, three in one's own."""
    looked_at = [[len(list(visible(16, 4, r, o))) for o in range(4)] for r in range(4)]
    assert looked_at == [[3 if r == o else 2 for o in range(4)] for r in range(4)]


def test_a_block_of_other_texts_is_not_looked_at():
    apart = torch.arange(4).repeat_interleave(4)
    assert not list(visible(16, 4, 3, 0, "blocks", apart))
