"""What ranks hold and where they idle, on timelines worked out by hand; what autograd has saved."""

import pytest
import torch
from torch import nn

from rankbook.parallel.pipeline import (
    Action,
    PipelinePlan,
    SavedBytes,
    Timeline,
    activations_in_flight,
    gaps,
    peak,
    schedule_names,
    simulate,
)


def by_hand() -> Timeline:
    """Two ranks from time 10: rank 0 with one stage, rank 1 with two and a split backward."""
    return Timeline([
        Action(0, 0, "F", 0, 10, 11), Action(0, 0, "F", 1, 11, 12), Action(0, 0, "B", 0, 15, 17),
        Action(0, 0, "B", 1, 17, 19),
        Action(1, 1, "wait", 0, 10, 11), Action(1, 1, "F", 0, 11, 12), Action(1, 2, "F", 0, 12, 13),
        Action(1, 2, "I", 0, 13, 14), Action(1, 1, "I", 0, 14, 15), Action(1, 2, "W", 0, 15, 16),
        Action(1, 1, "W", 0, 16, 17),
    ])  # fmt: skip


def test_gaps_by_hand():
    line = by_hand()
    assert gaps(line, 0) == [(2, 5)]
    assert gaps(line, 1) == [(0, 1), (7, 9)]  # waiting is not computing


def test_held_by_hand():
    line = by_hand()
    assert activations_in_flight(line, 0) == [(0, 1), (1, 2), (7, 1), (9, 0)]
    # a stage of two counts half, from F to W
    assert activations_in_flight(line, 1) == [(0, 0), (1, 0.5), (2, 1), (6, 0.5), (7, 0)]
    assert (peak(line, 0), peak(line, 1)) == (2, 1)


@pytest.mark.parametrize("name", schedule_names())
def test_simulated_schedules(name):
    plan = PipelinePlan(name, 3, 6)
    line = simulate(plan)
    for rank in line.ranks:
        idle = sum(end - start for start, end in gaps(line, rank))
        assert line.span - idle == pytest.approx(3 * 6)  # F, I and W of each microbatch
        assert peak(line, rank) == line.in_flight(rank) * plan.ranks / plan.stages
        assert activations_in_flight(line, rank)[-1] == (pytest.approx(gaps_end(line, rank)), 0)


def gaps_end(line: Timeline, rank: int) -> float:
    """When the rank's last action is over."""
    return line.computed(rank)[-1].end - line.start


def test_saved_bytes():
    saved, x = SavedBytes(), torch.randn(4, 8)
    module = saved.watch(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh()))
    one = 3 * x.nbytes  # the input and two outputs; what two layers save counts once
    first = module(x)
    assert (saved.now, saved.peak) == (one, one)
    second = module(x)
    assert (saved.now, saved.peak) == (2 * one, 2 * one)
    first.sum().backward()
    second.sum().backward()
    assert (saved.now, saved.peak) == (0, 2 * one)
    with torch.no_grad():
        module(x)
    assert saved.now == 0


def test_gradients_stay_what_they_were():
    x, plain = torch.randn(4, 8), nn.Linear(8, 8)
    watched = nn.Linear(8, 8)
    watched.load_state_dict(plain.state_dict())
    SavedBytes().watch(watched)
    for module in (plain, watched):
        module(x).square().sum().backward()
    assert torch.equal(plain.weight.grad, watched.weight.grad)


def test_a_full_device_says_so():
    x = torch.randn(4, 8)
    saved = SavedBytes(limit=2 * x.nbytes)
    module = saved.watch(nn.Linear(8, 8))
    outputs = [module(x) for _ in range(2)]
    with pytest.raises(MemoryError) as raised:
        module(x)
    assert str(raised.value) == (
        "256 bytes are held for backward passes, 128 more do not fit into 256; "
        "use fewer microbatches, or a schedule that holds fewer"
    )
    assert saved.now == 2 * x.nbytes
    del outputs
    assert saved.now == 0
