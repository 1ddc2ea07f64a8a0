"""The running mean, the recorder of Join and its timeline, on one rank."""

import time

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from rankbook.parallel.joining import JoinEvent, JoinTimeline, RunningMean, record_join


@pytest.fixture
def group(tmp_path):
    """This process as the only rank."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_running_mean(group):
    mean = RunningMean()
    with pytest.raises(ValueError, match="a mean of nothing"):
        _ = mean.mean
    loss = torch.tensor(2.0, requires_grad=True)
    mean.update(loss * 3, weight=1)
    mean.update(3, weight=2)
    assert (mean.mean, mean.weight) == (4, 3)
    with Join([mean]):
        mean.update(torch.tensor(10, dtype=torch.bfloat16))
    assert (mean.mean, mean.weight) == (5.5, 4)
    assert not mean._sums.requires_grad


def train(joinables: list, model: nn.Module, optimizer, inputs: int, **options) -> None:
    with Join(joinables, **options):
        for _ in range(inputs):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()


def test_recorded_on_one_rank(group):
    model, mean = DistributedDataParallel(nn.Linear(2, 1)), RunningMean()
    optimizer = torch.optim.Adam(model.parameters())
    begin = time.monotonic()
    with record_join() as recording:
        train([model, mean], model, optimizer, 2)
    timeline = recording.gather()
    last = ["exhausted", "ask", "post_hook DistributedDataParallel", "post_hook RunningMean"]
    assert timeline.order(0) == ["forward", "backward", "step"] * 2 + last
    # DDP's forward says that there is an input, and whether it will reduce
    inside = timeline.order(0, inside=True)
    assert inside[:4] == ["forward", "notify", "all_reduce", "all_reduce"]
    assert (timeline.count(0, "notify"), timeline.count(0, "ask")) == (2, 1)
    assert begin < timeline.start < timeline.start + timeline.exhausted(0) < time.monotonic()
    assert f"{len(timeline.events)} events on 1 ranks" in repr(timeline)


def test_what_is_not_enabled_is_not_joined(group):
    model = DistributedDataParallel(nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record_join() as recording:
        train([model], model, optimizer, 1, enable=False)
    timeline = recording.gather()
    assert timeline.order(0) == ["forward", "backward", "step"]
    with pytest.raises(ValueError, match="rank 0 did not come to the end of its inputs"):
        timeline.exhausted(0)


def test_all_is_put_back_also_after_an_error(group):
    def things() -> list:
        ddp = DistributedDataParallel
        return [
            Join.__exit__, Join.notify_join_context, Join._get_num_nonjoined_procs, ddp.forward,
            ddp._match_all_reduce_for_bwd_pass, torch.Tensor.backward, dist.all_reduce,
            dist.broadcast,
        ]  # fmt: skip

    before = things()
    model = DistributedDataParallel(nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ZeroDivisionError), record_join() as recording, Join([model]):
        assert all(now is not then for now, then in zip(things(), before, strict=True))
        train([model], model, optimizer, 1)
        _ = 1 / 0
    assert all(now is then for now, then in zip(things(), before, strict=True))
    noted = len(recording.events())
    train([model], model, optimizer, 1)  # its steps are not noted any more
    assert len(recording.events()) == noted


def test_events_inside_of_others():
    events = [
        JoinEvent(1, "ask", "", 5.0, 6.0),
        JoinEvent(0, "collective", "broadcast", 1.0, 2.0, inside=True),
        JoinEvent(0, "main_hook", "Counter", 1.0, 3.0),
        JoinEvent(0, "exhausted", "", 0.5, 0.5),
    ]
    timeline = JoinTimeline(events, clock_error=0.1)
    assert timeline.order(0) == ["exhausted", "main_hook Counter"]
    assert timeline.order(0, inside=True) == ["exhausted", "main_hook Counter", "broadcast"]
    assert (timeline.start, timeline.span, timeline.ranks) == (0.5, 5.5, [0, 1])
    assert (timeline.exhausted(0), timeline.clock_error) == (0, 0.1)
    assert timeline.of(1, "ask", "notify") == [events[0]]


def test_nothing_recorded():
    with record_join() as recording:
        pass
    assert recording.events() == []
    with pytest.raises(ValueError, match="nothing was recorded; put the block of Join inside"):
        JoinTimeline([])
