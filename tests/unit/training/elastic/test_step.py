"""One step on a global batch: what one process computes, and what it refuses to depend on."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from rankbook.training.elastic import elastic_step


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 1)


def losses(net: nn.Module, share: tuple) -> torch.Tensor:
    inputs, targets = share
    return F.mse_loss(net(inputs), targets, reduction="none").mean(1)


def share(samples: int) -> tuple:
    generator = torch.Generator().manual_seed(1)
    return tuple(torch.randn(samples, width, generator=generator) for width in (3, 1))


@pytest.mark.parametrize("max_norm", [None, 0.01])
def test_without_a_group_it_is_a_usual_step(max_norm):
    ours, theirs = model(), model()
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (ours, theirs)]
    for _ in range(2):  # gradients of the first must not be in the second
        result = elastic_step(ours, optimizers[0], losses, share(5), max_norm=max_norm)
        optimizers[1].zero_grad()
        loss = losses(theirs, share(5)).mean()
        loss.backward()
        if max_norm:
            nn.utils.clip_grad_norm_(theirs.parameters(), max_norm)
        optimizers[1].step()
        assert result.loss == pytest.approx(loss.item(), rel=1e-6) and result.samples == 5
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_what_is_frozen_stays():
    net = model()
    net.bias.requires_grad_(False)
    before = net.bias.clone(), net.weight.clone()
    elastic_step(net, torch.optim.SGD(net.parameters(), lr=0.1), losses, share(2))
    assert torch.equal(net.bias, before[0]) and not torch.equal(net.weight, before[1])


def test_half_precision_gradients_are_summed_in_float32():
    net = model().bfloat16()
    inputs, targets = (tensor.bfloat16() for tensor in share(4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    result = elastic_step(net, optimizer, losses, (inputs, targets))
    assert result.samples == 4 and net.weight.grad.dtype == torch.bfloat16


def test_a_global_batch_without_samples_is_an_error():
    net = model()
    with pytest.raises(ValueError, match="no rank has a sample of this step"):
        elastic_step(net, torch.optim.SGD(net.parameters(), lr=0.1), losses, None)
