"""DiLoCo in a group of one, and what is refused. With several ranks: tests/distributed."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from rankbook.parallel.sync import CompressedGradients, DiLoCo, LocalSGD


@pytest.fixture(autouse=True)
def group_of_one(tmp_path):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def walk(module: nn.Module, by: float) -> None:
    """What an inner optimizer does."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(by)


def test_alone_an_outer_step_of_rate_1_changes_nothing():
    module = model()
    sync = LocalSGD(module.parameters(), 2)
    before = [p.detach().clone() for p in module.parameters()]
    met = []
    for _ in range(4):
        walk(module, 0.5)
        met.append(sync.step())
    assert met == [False, True, False, True]
    assert sync.meetings == 2
    for p, was in zip(module.parameters(), before, strict=True):
        torch.testing.assert_close(p.detach(), was + 2.0)
    assert sync.sent == 0  # there is nobody to send to


def test_nesterov_goes_further_in_the_direction_that_lasts():
    """By hand: 0.7 (g + 0.9 m) with m = g, then 0.7 (g + 0.9 (g + 0.9 m))."""
    module = model()
    sync = DiLoCo(module.parameters(), 1)
    at = next(module.parameters()).detach().clone()
    for factor in (1.9, 1 + 0.9 * 1.9):
        walk(module, -0.1)
        sync.step()
        at -= 0.7 * 0.1 * factor
        torch.testing.assert_close(next(module.parameters()).detach(), at)


def test_a_replica_that_counts_nothing_goes_where_the_others_are():
    """Even if its own parameters are no numbers any more. Here there are no others."""
    module = model()
    sync = DiLoCo(module.parameters(), 1)
    before = [p.detach().clone() for p in module.parameters()]
    walk(module, torch.nan)
    sync.weight = 0.0
    sync.step()
    assert all(torch.equal(p, was) for p, was in zip(module.parameters(), before, strict=True))


@pytest.mark.parametrize("overlap", [0, 2])
def test_it_goes_on_from_its_state_with_the_same_bits(overlap):
    def train(module: nn.Module, sync: DiLoCo, steps: range) -> torch.Tensor:
        for step in steps:
            walk(module, 0.1 * step)
            sync.step()
        return torch.cat([p.detach().flatten() for p in module.parameters()])

    settings = {"every": 3, "fragments": 2, "overlap": overlap, "keep": 0.3 * bool(overlap)}
    whole = model()
    expected = train(whole, DiLoCo(whole.parameters(), **settings), range(11))
    for stop in range(11):
        first = model()
        sync = DiLoCo(first.parameters(), **settings)
        train(first, sync, range(stop))
        second = model()
        second.load_state_dict(first.state_dict())
        going_on = DiLoCo(second.parameters(), **settings)
        going_on.load_state_dict(sync.state_dict())
        assert torch.equal(train(second, going_on, range(stop, 11)), expected)
        # the sabotage: a replica's parameters alone are not enough
        forgetful = DiLoCo(first.parameters(), **settings)
        same = torch.equal(train(first, forgetful, range(stop, 11)), expected)
        assert same == (stop == 0)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"every": 0}, "use 1 or more"),
        ({"every": 4, "overlap": 4}, "use 0 to 3"),
        ({"every": 4, "fragments": 3}, "2 parameters do not make 3 fragments"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(settings, says):
    with pytest.raises(ValueError, match=says):
        DiLoCo(model().parameters(), **settings)


def test_each_parameter_is_in_one_fragment():
    module = model()
    with pytest.raises(ValueError, match="in one fragment, and in one only"):
        DiLoCo(module.parameters(), 2, fragments=[[module.weight]])


def test_nobody_changes_the_group_while_something_is_on_its_way():
    sync = DiLoCo(model().parameters(), 3, overlap=1)
    for _ in range(3):
        sync.step()
    with pytest.raises(RuntimeError, match="on its way to the old group"):
        sync.regroup(None)


def test_gradients_that_are_not_there_are_not_averaged():
    module = model()
    module.weight.grad = torch.zeros_like(module.weight)
    with pytest.raises(ValueError, match="1 of 2 parameters have no gradient"):
        CompressedGradients(module.parameters()).average()
