"""Balance in one process: the loss at its ends, its gradient, and what the bias does."""

import pytest
import torch

from rankbook.models.experts import BiasBalance, Experts, Router, Routing, balance_loss

EXPERTS, TOP_K = 4, 2


def routing(chosen: list[list[int]], probabilities: torch.Tensor) -> Routing:
    return Routing(torch.tensor(chosen), torch.ones(len(chosen), 2), probabilities)


def test_the_loss_is_1_where_all_is_equal_and_at_most_experts_by_top_k():
    equal = torch.full((4, EXPERTS), 0.25)
    assert balance_loss(routing([[0, 1], [2, 3], [1, 2], [3, 0]], equal)) == pytest.approx(1.0)
    same = torch.tensor([[0.5, 0.5, 0.0, 0.0]]).expand(4, -1)
    assert balance_loss(routing([[0, 1]] * 4, same)) == pytest.approx(EXPERTS / TOP_K)


def test_its_gradient_takes_from_the_experts_that_are_chosen_most():
    logits = torch.zeros(4, EXPERTS, requires_grad=True)
    chosen = [[0, 1], [0, 2], [0, 3], [0, 1]]
    balance_loss(routing(chosen, logits.softmax(dim=1))).backward()
    assert torch.all(logits.grad[:, 0] > 0) and torch.all(logits.grad[:, 3] < 0)
    # by hand: experts * sum of f * dP, with f = (4, 2, 1, 1) / 8 and a softmax at equal logits
    shares = torch.tensor([4.0, 2.0, 1.0, 1.0]) / 8
    right = EXPERTS * 0.25 * (shares - shares.mean()) / 4
    assert torch.allclose(logits.grad, right.expand(4, -1))


def test_a_layer_adds_its_own_loss_in_the_backward_pass():
    x = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))
    found = []
    for weight in (0.0, 0.1):
        torch.manual_seed(0)
        layer = Experts(8, 16, EXPERTS, TOP_K, balance_weight=weight)
        y = layer(x)
        loss = y.square().mean()
        if not weight:
            loss = loss + 0.1 * balance_loss(layer.routing)
        loss.backward()
        found.append((y, layer.router.weight.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.allclose(found[0][1], found[1][1], rtol=0, atol=1e-7)


def test_without_gradients_nothing_is_added():
    layer = Experts(8, 16, EXPERTS, TOP_K, balance_weight=0.1)
    with torch.no_grad():
        assert not layer(torch.ones(2, 8)).requires_grad


def test_a_bias_moves_by_the_sign_of_what_is_missing():
    made = Router(8, EXPERTS, TOP_K)
    made._passes = [torch.tensor([[9.0, 2.0, 5.0, 4.0], [0.0] * 4, [0.0] * 4])]
    counts = BiasBalance(made, rate=0.01).step()
    assert counts.tolist() == [[9.0, 2.0, 5.0, 4.0]]
    assert made.bias.tolist() == pytest.approx([-0.01, 0.01, 0.0, 0.01])
    assert not made.tally.any()


def test_biases_bring_all_experts_to_work():
    """Half of the experts are unwanted: the counts come near an equal share, 128."""
    torch.manual_seed(0)
    layer = Experts(8, 16, EXPERTS, TOP_K)
    x = torch.randn(256, 8) + 1.0
    layer.router.weight.data[:2] += 0.5
    balance = BiasBalance(layer, rate=0.002)
    layer(x)
    before = balance.step()
    for _ in range(400):
        layer(x)
        counts = balance.step()
    assert before.max() > 1.5 * before.mean()
    assert counts.max() < 1.1 * counts.mean()


def test_nothing_counted_moves_nothing():
    made = Router(8, EXPERTS, TOP_K)
    BiasBalance([made]).step()
    assert torch.all(made.bias == 0)
