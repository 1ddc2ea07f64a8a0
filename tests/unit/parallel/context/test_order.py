"""Every token is one rank's, and the causal work is counted right."""

import pytest
import torch

from rankbook.parallel.context import ORDERS, pairs, positions, shard, unshard


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_every_token_is_one_ranks(order, ranks):
    length = 4 * ranks
    all_of_them = torch.cat([positions(length, ranks, rank, order) for rank in range(ranks)])
    assert sorted(all_of_them.tolist()) == list(range(length))


def test_an_early_and_a_late_stretch():
    assert positions(16, 2, 0).tolist() == [0, 1, 2, 3, 12, 13, 14, 15]
    assert positions(16, 2, 1).tolist() == [4, 5, 6, 7, 8, 9, 10, 11]
    assert positions(16, 4, 2, "blocks").tolist() == [8, 9, 10, 11]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_what_was_cut_is_joined(order, dim):
    whole = torch.arange(8 * 16 * 8).view(8, 16, 8)
    pieces = [shard(whole, 4, rank, order, dim) for rank in range(4)]
    assert pieces[2].shape[dim] * 4 == whole.shape[dim]
    assert torch.equal(unshard(pieces, order, dim), whole)
    chosen = whole.index_select(dim, positions(whole.shape[dim], 4, 2, order))
    assert torch.equal(pieces[2], chosen)


def test_zigzag_is_balanced_and_blocks_are_not():
    for ranks in (2, 4, 8):
        work = {order: [pairs(64, ranks, r, order) for r in range(ranks)] for order in ORDERS}
        assert {sum(each) for each in work.values()} == {64 * 65 // 2}
        assert len(set(work["zigzag"])) == 1
        size = 64 // ranks
        last, first = work["blocks"][-1], work["blocks"][0]
        assert first == size * (size + 1) // 2 and last - first == size * (64 - size)


def test_pairs_are_those_of_the_mask():
    mask = torch.ones(16, 16, dtype=torch.bool).tril()
    for order in ORDERS:
        for rank in range(4):
            assert pairs(16, 4, rank, order) == mask[positions(16, 4, rank, order)].sum()


@pytest.mark.parametrize(
    "length, ranks, rank, order, said",
    [
        (12, 4, 0, "zigzag", "12 tokens are not cut into 8 equal parts, as 4 ranks in order "
         "zigzag need them; use a multiple of 8, padding what is shorter"),
        (10, 4, 0, "blocks", "a multiple of 4"),
        (0, 4, 0, "blocks", "0 tokens"),
        (16, 4, 4, "blocks", "rank 4 is none of 4; use 0 to 3"),
        (16, 4, 0, "striped", "order 'striped' is unknown; use blocks or zigzag"),
    ],
)  # fmt: skip
def test_what_cannot_be_cut_is_said(length, ranks, rank, order, said):
    with pytest.raises(ValueError) as raised:
        positions(length, ranks, rank, order)
    assert said in str(raised.value)
