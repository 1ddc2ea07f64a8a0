"""A router's choice, its weights, and what its bias may and may not change."""

import pytest
import torch

from rankbook.models.experts import Router


def tokens(count: int = 32) -> torch.Tensor:
    return torch.randn(count, 16, generator=torch.Generator().manual_seed(1))


def router(top_k: int = 2) -> Router:
    torch.manual_seed(0)
    return Router(16, 8, top_k)


def test_the_most_probable_are_chosen_and_weighed_by_their_probabilities():
    routing = router()(tokens())
    assert torch.allclose(routing.probabilities.sum(dim=1), torch.ones(32))
    best = routing.probabilities.sort(dim=1, descending=True)
    assert torch.equal(routing.chosen, best.indices[:, :2])
    expected = best.values[:, :2] / best.values[:, :2].sum(dim=1, keepdim=True)
    assert torch.allclose(routing.weights, expected)
    assert routing.counts.sum() == 64 and routing.counts[3] == (routing.chosen == 3).sum()


def test_one_expert_a_token_keeps_its_probability_so_that_the_router_learns():
    made = router(top_k=1)
    routing = made(tokens())
    assert torch.equal(routing.weights[:, 0], routing.probabilities.amax(dim=1))
    routing.weights.sum().backward()
    assert made.weight.grad.abs().max() > 1e-3


def test_a_bias_changes_who_is_chosen_and_no_weight():
    made = router()
    before = made(tokens())
    made.bias.data[5] = 10.0
    after = made(tokens())
    assert torch.all(after.chosen[:, 0] == 5) and not torch.all(before.chosen[:, 0] == 5)
    assert torch.equal(after.probabilities, before.probabilities)
    same = after.chosen == before.chosen  # where 5 was first anyway
    assert torch.equal(after.weights[same.all(dim=1)], before.weights[same.all(dim=1)])
    after.weights.sum().backward()
    assert made.bias.grad is None


def test_only_passes_with_gradients_count():
    made = router()
    with torch.no_grad():
        made(tokens())
    assert not made.tally.any()
    counts = made(tokens()).counts + made(tokens(8)).counts
    assert torch.equal(made.tally[0], counts.double())
    assert made.tally[1].sum() == pytest.approx(40)
    made.forget()
    assert not made.tally.any()


def test_a_window_counts_the_last_passes_only():
    """A pipeline tries its stages before the first step, on whatever lies in memory."""
    made = router()
    made.window = 2
    made(torch.full((5, 16), torch.nan))
    counts = made(tokens()).counts + made(tokens(8)).counts
    assert torch.equal(made.tally[0], counts.double()) and made.tally.isfinite().all()


def test_autocast_leaves_the_probabilities_in_float32():
    made, right = router(), router()(tokens()).probabilities
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(made(tokens()).probabilities, right)


@pytest.mark.parametrize("top_k", [0, 9])
def test_more_choices_than_experts_are_refused(top_k):
    with pytest.raises(ValueError, match=f"top_k is {top_k}, and there are 8 experts; use 1 to 8"):
        Router(16, 8, top_k)
