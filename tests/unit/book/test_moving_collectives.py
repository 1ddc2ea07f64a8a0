"""Collectives step by step: each ends with what it promises, in the time that is predicted."""

from math import ceil, log2

import pytest
from bookext.moving_twins.collectives import ALL_REDUCES, HALVES, collective

from rankbook.comm.all_reduce.alpha_beta import WAYS, predict

RANKS = range(2, 9)


@pytest.mark.parametrize("n", RANKS)
@pytest.mark.parametrize("way", ALL_REDUCES)
def test_every_all_reduce_ends_with_the_sum_everywhere(way, n):
    found = collective(way, n)
    assert found.held(0) == [[{rank}] * found.chunks for rank in range(n)]
    assert found.held(len(found.steps)) == [[set(range(n))] * found.chunks] * n


@pytest.mark.parametrize("n", RANKS)
def test_a_reduce_scatter_ends_with_one_chunk_of_the_sum(n):
    held = collective("reduce_scatter", n).held(n - 1)
    assert all(held[rank][rank] == set(range(n)) for rank in range(n))
    assert all(len(held[rank][chunk]) < n for rank in range(n) for chunk in set(range(n)) - {rank})


@pytest.mark.parametrize("n", RANKS)
def test_an_all_gather_begins_with_one_chunk_and_ends_with_all(n):
    found = collective("all_gather", n)
    assert sum(len(chunk) for rank in found.held(0) for chunk in rank) == n
    assert found.held(n - 1) == [[{chunk} for chunk in range(n)]] * n


@pytest.mark.parametrize("n", RANKS)
@pytest.mark.parametrize("way", [*ALL_REDUCES, *HALVES])
def test_a_rank_sends_and_receives_one_message_at_a_time(way, n):
    for messages in collective(way, n).steps:
        for ranks in ([m.source for m in messages], [m.target for m in messages]):
            assert len(set(ranks)) == len(ranks)
        assert all(m.source != m.target for m in messages)


@pytest.mark.parametrize("n", RANKS)
@pytest.mark.parametrize("way", [way for way in ALL_REDUCES if way in WAYS])
def test_the_time_is_the_prediction_to_the_last_bit(way, n):
    found = collective(way, n)
    link = (2**20, 1.7e-4, 3.8e-10)
    assert found.seconds(len(found.steps), *link) == predict(way, n, *link)


@pytest.mark.parametrize("n", RANKS)
def test_the_time_of_a_tree_and_of_half_a_ring(n):
    tree = collective("tree", n)
    assert tree.seconds(len(tree.steps), 100, 1, 0) == 2 * ceil(log2(n))
    assert tree.seconds(len(tree.steps), 100, 0, 1) == 200 * ceil(log2(n))
    whole = predict("ring", n, 1000, 3, 0.5)
    for way in HALVES:
        half = collective(way, n)
        assert 2 * half.seconds(n - 1, 1000, 3, 0.5) == pytest.approx(whole)


def test_what_the_busiest_sends():
    ring, by_rank_0 = collective("ring", 4), collective("by rank 0", 4)
    assert [ring.sent(rank, 6) for rank in range(4)] == [1.5] * 4
    assert [by_rank_0.sent(rank, 6) for rank in range(4)] == [3, 1, 1, 1]
    assert [by_rank_0.sent(rank, 3) for rank in range(4)] == [0, 1, 1, 1]


def test_refused():
    with pytest.raises(ValueError, match="'star' is unknown; use one of by rank 0, tree"):
        collective("star", 4)
    with pytest.raises(ValueError, match="1 ranks send nothing"):
        collective("ring", 1)
