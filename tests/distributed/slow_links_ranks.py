"""What ranks do in test_slow_links_chapter.py: small replicas of one linear model."""

import torch
import torch.distributed as dist
from torch import nn

from rankbook.parallel.sync import CompressedGradients, DiLoCo, TopK, nesterov
from rankbook.parallel.sync.torchft_manager import GroupManager

STEPS, EVERY = 24, 6


def replica() -> tuple[nn.Sequential, torch.optim.Optimizer]:
    """The same on every rank, in float64: what rounds does not count."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3)).double()
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def backward(model: nn.Module, step: int) -> torch.Tensor:
    """On rows of this rank's own."""
    draw = torch.Generator().manual_seed(100 * step + dist.get_rank())
    rows, targets = (torch.randn(5, n, generator=draw, dtype=torch.float64) for n in (6, 3))
    loss = (model(rows) - targets).square().mean()
    loss.backward()
    return loss.detach()


def go_on(
    model: nn.Module, inner: torch.optim.Optimizer, sync: DiLoCo | None, steps: range
) -> None:
    for step in steps:
        inner.zero_grad()
        backward(model, step)
        inner.step()
        if sync:
            sync.step()


def vector(model: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def forgotten(feedback: bool) -> dict:
    """The share of parameters that never move if one in ten entries is sent."""
    model, _ = replica()
    start, sgd = vector(model), torch.optim.SGD(model.parameters(), lr=0.1)
    gradients = CompressedGradients(model.parameters(), TopK(0.1), feedback)
    first = backward(model, 0)
    for step in range(60):
        sgd.zero_grad()
        last = backward(model, step % 2)
        gradients.average()
        sgd.step()
    still = (vector(model) == start).double().mean().item()
    return {"still": still, "learnt": (first - last).item()}


def returned(naively: bool) -> torch.Tensor:
    """The last rank is away for two meetings; what it is after two more."""
    model, inner = replica()
    sync = DiLoCo(model.parameters(), EVERY)
    world = dist.get_world_size()
    others = dist.new_group(list(range(world - 1)))
    go_on(model, inner, sync, range(2 * EVERY))
    if away := dist.get_rank() == world - 1:
        go_on(model, inner, None, range(2 * EVERY, 4 * EVERY))
    else:
        sync.regroup(others)
        go_on(model, inner, sync, range(2 * EVERY, 4 * EVERY))
    if naively:
        sync.exchange.group = None
    else:
        assert sync.regroup(None) == away
    go_on(model, inner, sync, range(4 * EVERY, 6 * EVERY))
    return vector(model)


def with_torchft(outers: int) -> dict[str, torch.Tensor]:
    """Two fragments by torchft, with so many outer optimizers, and by the room."""
    from torchft.local_sgd import DiLoCo as TheirDiLoCo

    theirs, inner = replica()
    if outers == 1:
        outer = nesterov(theirs.parameters())
    else:
        outer = [nesterov(layer.parameters()) for layer in theirs]
    with TheirDiLoCo(GroupManager(), list(theirs), inner, outer, EVERY):
        go_on(theirs, inner, None, range(STEPS))  # a hook on the inner step meets
    ours, inner = replica()
    fragments = [list(layer.parameters()) for layer in ours]
    go_on(ours, inner, DiLoCo(ours.parameters(), EVERY, fragments=fragments), range(STEPS))
    # the second fragment has just met, the first one has gone on alone since
    return {"theirs": vector(theirs[1]), "ours": vector(ours[1])}
