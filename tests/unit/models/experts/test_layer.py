"""The layer in one process: what it gives is what each token's own experts give."""

import pytest
import torch
from torch.nn import functional as F

from rankbook.models.experts import Experts, capacity

SIZES = {"d_model": 16, "d_hidden": 24, "experts": 8, "top_k": 2}


def layer(**options) -> Experts:
    torch.manual_seed(0)
    return Experts(**(SIZES | options))


def batch(rows: int = 4, length: int = 12) -> torch.Tensor:
    return torch.randn(rows, length, 16, generator=torch.Generator().manual_seed(3))


def by_hand(made: Experts, x: torch.Tensor) -> torch.Tensor:
    """All experts on all tokens, weighed: 0 for those that were not chosen, or had no room."""
    tokens = x.flatten(0, -2)
    routing = made.router(tokens)
    weights = torch.zeros_like(routing.probabilities).scatter(1, routing.chosen, routing.weights)
    if made.capacity_factor is not None:
        limit = capacity(x.shape[-2], made.experts, made.top_k, made.capacity_factor)
        taken = {}
        for n, chosen in enumerate(routing.chosen.tolist()):
            for expert in chosen:
                key = n // x.shape[-2], expert
                taken[key] = taken.get(key, 0) + 1
                if taken[key] > limit:
                    weights[n, expert] = 0.0
    hidden = F.relu(torch.einsum("nd,ehd->neh", tokens, made.up))
    y = torch.einsum("neh,edh->ned", hidden, made.down)
    return torch.einsum("ne,ned->nd", weights, y).view_as(x)


@pytest.mark.parametrize("factor", [None, 1.0, 0.5])
@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_the_layer_is_the_weighed_sum_of_the_experts_of_each_token(top_k, factor):
    made, x = layer(top_k=top_k, capacity_factor=factor).double(), batch().double()
    mine, right = x.clone().requires_grad_(), x.clone().requires_grad_()
    found, expected = made(mine), by_hand(made, right)
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)
    assert (made.dropped > 0) == (factor is not None)
    parameters = [p for p in made.parameters() if p.requires_grad]
    upstream = torch.randn(x.shape, generator=torch.Generator().manual_seed(4)).double()
    for one, other in zip(
        torch.autograd.grad(found, [mine, *parameters], upstream),
        torch.autograd.grad(expected, [right, *parameters], upstream),
        strict=True,
    ):
        assert torch.allclose(one, other, rtol=0, atol=1e-12) and other.abs().max() > 0


def test_tokens_alone_are_one_row():
    made = layer(capacity_factor=0.5)
    x = batch()
    assert torch.allclose(made(x[0]), made(x[:1])[0], atol=1e-6)
    assert not torch.allclose(
        made(x.flatten(0, 1)).view_as(x), made(x), atol=1e-2
    )  # another capacity


def test_capacity_per_row_knows_no_other_rows_and_per_rank_does():
    x = batch()
    by_row, by_rank = (layer(capacity_factor=1.0, per=per) for per in ("row", "rank"))
    assert torch.allclose(by_row(x)[2:], by_row(x[2:]), atol=1e-6)
    assert not torch.allclose(by_rank(x)[2:], by_rank(x[2:]), atol=1e-2)


def test_what_is_dropped_gives_nothing_and_moves_nothing():
    made = layer(capacity_factor=0.01, top_k=1)  # one token of a row for each expert
    x = batch().requires_grad_()
    y = made(x)
    y.sum().backward()
    empty = (y == 0).all(dim=-1)
    assert made.router.tally[2].sum() == made.dropped and made.router.tally[0].sum() == 48
    assert empty.sum() == made.dropped >= 16
    assert torch.all(x.grad[empty] == 0) and not torch.all(x.grad[~empty] == 0)


def test_an_expert_without_tokens_has_a_gradient_of_zeros():
    made = layer()
    made.router.bias.data[3] = -100.0
    made(batch()).sum().backward()
    assert torch.all(made.up.grad[3] == 0) and made.up.grad[2].abs().max() > 0


def test_another_definition_of_capacity_is_refused():
    with pytest.raises(ValueError, match="capacity per 'batch' is unknown; use row or rank"):
        layer(per="batch")


def test_autocast_gives_what_came_in():
    with torch.autocast("cpu", torch.bfloat16):
        y = layer()(batch())
    assert y.dtype == torch.float32
    assert torch.allclose(y, layer()(batch()), atol=0.05)
