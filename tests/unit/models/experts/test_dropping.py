"""Capacity: how much an expert takes, and who comes too late."""

import pytest
import torch

from rankbook.models.experts import capacity, served


@pytest.mark.parametrize(
    ("tokens", "factor", "limit"),
    [(64, 1.0, 16), (64, 1.25, 20), (10, 1.0, 3), (64, 0.01, 1), (64, 100.0, 64), (64, 1e308, 64)],
)
def test_an_equal_share_times_the_factor_rounded_up(tokens, factor, limit):
    assert capacity(tokens, experts=8, top_k=2, factor=factor) == limit


def test_a_capacity_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"a capacity of 0\.0 equal shares takes nothing"):
        capacity(64, 8, 2, 0.0)


def test_who_comes_first_in_a_row_is_served_first():
    chosen = torch.tensor([[[0, 1], [0, 2], [0, 1]], [[2, 0], [1, 0], [0, 1]]])
    found = served(chosen, experts=3, limit=2)
    assert found.tolist() == [
        [[True, True], [True, True], [False, True]],
        [[True, True], [True, True], [False, True]],
    ]
    assert served(chosen, experts=3, limit=1)[0].tolist() == [
        [True, True], [False, True], [False, False]
    ]  # fmt: skip


def test_no_row_and_no_later_token_changes_what_a_token_gets():
    """A causal model must not know later tokens, not even by a place that they took."""
    generator = torch.Generator().manual_seed(2)
    chosen = torch.rand(4, 20, 6, generator=generator).argsort(dim=-1)[..., :2]
    found = served(chosen, experts=6, limit=5)
    assert not found.all()
    assert torch.equal(served(chosen[1:2], 6, 5), found[1:2])
    assert torch.equal(served(chosen[:, :11], 6, 5), found[:, :11])
