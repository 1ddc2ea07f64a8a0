"""Timelines by hand, and a recorder that leaves no trace."""

import pickle
import time
from types import SimpleNamespace

import pytest
import torch
from torch.distributed.pipelining import schedules as torch_schedules
from torch.distributed.pipelining.schedules import _PipelineSchedule
from torch.distributed.pipelining.stage import _PipelineStageBase

from rankbook.core import clocks
from rankbook.parallel.pipeline import Action, Timeline, record

HOOKS = [
    (_PipelineStageBase, "forward_one_chunk"),
    (_PipelineStageBase, "backward_one_chunk"),
    (_PipelineStageBase, "backward_weight_one_chunk"),
    (_PipelineSchedule, "_maybe_compute_loss"),
    (_PipelineSchedule, "_update_losses"),
    (torch_schedules, "_wait_batch_p2p"),
]


def two_ranks() -> list[Action]:
    return [
        Action(1, 1, "wait", 0, 3.0, 6.0),
        Action(1, 1, "F", 0, 6.0, 7.0),
        Action(1, 1, "I", 0, 7.0, 8.0),
        Action(1, 1, "W", 0, 8.0, 9.0),
        Action(0, 0, "F", 0, 5.0, 6.0),
        Action(0, 0, "F", 1, 6.0, 7.0),
        Action(0, 0, "B", 0, 8.0, 10.0),
        Action(0, 0, "B", 1, 11.0, 13.0),
    ]


def test_a_timeline_by_hand():
    line = Timeline(two_ranks())
    assert line.ranks == [0, 1]
    assert (line.start, line.span) == (5.0, 8.0)  # the wait does not count
    assert line.order(0) == ["0F0", "0F1", "0B0", "0B1"]
    assert line.order(1) == ["1F0", "1I0", "1W0"]
    assert line.seconds("F") == [1.0, 1.0, 1.0] and line.seconds("wait") == [3.0]
    assert repr(line) == "<Timeline: 8 actions on 2 ranks, 8 s>"
    assert pickle.loads(pickle.dumps(line)).actions == line.actions


def test_idle_is_what_the_work_does_not_fill():
    line = Timeline(two_ranks(), clock_error=0.5)
    with pytest.raises(ValueError, match="nobody said how much of the time was work; use with_w"):
        _ = line.idle_share
    # the actions took 6 and 3 seconds: what they took longer than their work is idle, too
    given = line.with_work({0: 4.0, 1: 2.0})
    assert given.idle_shares == {0: 1 - 4 / 8, 1: 1 - 2 / 8} and given.idle_share == 1 - 6 / 16
    assert given.actions == line.actions and given.clock_error == 0.5
    assert repr(given) == "<Timeline: 8 actions on 2 ranks, 8 s, idle 62.5%>"


def test_activations_in_flight():
    line = Timeline(two_ranks())
    assert (line.in_flight(0), line.in_flight(1)) == (2, 1)
    # a split backward holds its activation until W is over
    kinds = ["F", "I", "F", "I", "W", "W"]
    split = [Action(0, 0, kind, 0, i, i + 1) for i, kind in enumerate(kinds)]
    assert Timeline(split).in_flight(0) == 2
    whole = [action for action in split if action.kind != "W"]
    whole = [action._replace(kind="B") if action.kind == "I" else action for action in whole]
    assert Timeline(whole).in_flight(0) == 1


@pytest.mark.parametrize("actions", [[], [Action(0, 0, "wait", 0, 1.0, 2.0)]])
def test_an_empty_timeline(actions):
    with pytest.raises(ValueError, match="the timeline is empty; record a step"):
        Timeline(actions)


def test_the_recorder_leaves_nothing_wrapped():
    before = [getattr(owner, name) for owner, name in HOOKS]
    with pytest.raises(KeyError), record():
        within = [getattr(owner, name) for owner, name in HOOKS]
        with record():
            pass
        assert [getattr(owner, name) for owner, name in HOOKS] == within
        raise KeyError
    assert all(a is not b for a, b in zip(before, within, strict=True))
    after = [getattr(owner, name) for owner, name in HOOKS]
    assert all(a is b for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("step", [0, -1, 2])
def test_a_step_that_was_not_recorded(step):
    with record() as recording:
        pass
    assert recording.steps == 0
    with pytest.raises(ValueError, match=f"step {step} was not recorded, only 0 were; call"):
        recording.actions(step)


def forward(stage: int, microbatch: int) -> None:
    _PipelineStageBase.forward_one_chunk(SimpleNamespace(stage_index=stage), microbatch)


@pytest.fixture
def idle_stages(monkeypatch):
    """Stages whose forward does nothing."""
    monkeypatch.setattr(_PipelineStageBase, "forward_one_chunk", lambda stage, microbatch: None)


def test_a_step_that_failed_is_kept_until_where_it_failed(idle_stages):
    before = time.monotonic()
    with pytest.raises(KeyError), record() as recording:
        forward(2, 5)
        torch_schedules._wait_batch_p2p([SimpleNamespace(wait=lambda: None)])
        forward(2, 6)
        torch_schedules._wait_batch_p2p([SimpleNamespace(wait=lambda: None)])
        raise KeyError
    after = time.monotonic()
    assert recording.steps == 1
    actions = recording.actions(rank=3)
    # a wait belongs to the action after it; the last one has none
    assert [(a.rank, a.name) for a in actions] == [(3, "2F5"), (3, "2wait6"), (3, "2F6")]
    times = [moment for action in actions for moment in (action.start, action.end)]
    assert [before, *times, after] == sorted([before, *times, after])


def test_times_of_a_gpu_are_set_against_the_clock(idle_stages, monkeypatch):
    """Events in a stream say milliseconds since another event; here the GPU is a stand-in."""
    gpu = SimpleNamespace(milliseconds=1000.0, synchronized=0)

    class Event:
        def __init__(self, enable_timing: bool):
            assert enable_timing

        def record(self) -> None:
            gpu.milliseconds += 250
            self.at, self.asked = gpu.milliseconds, gpu.synchronized

        def synchronize(self) -> None:
            pass

        def elapsed_time(self, other: "Event") -> float:
            assert gpu.synchronized > other.asked  # else the event may not have happened yet
            return other.at - self.at

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(
        torch.cuda, "synchronize", lambda: setattr(gpu, "synchronized", gpu.synchronized + 1)
    )
    monkeypatch.setattr(clocks, "now", lambda: 70.0)
    with record() as recording:
        forward(0, 0)
        forward(0, 1)
    times = [(action.start, action.end) for action in recording.actions()]
    assert times == [(70.25, 70.5), (70.75, 71.0)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_recorded_gpu_is_as_busy_as_it_is(monkeypatch):
    x = torch.ones(4096, 4096, device="cuda")

    def work(stage, microbatch):
        for _ in range(20):
            x @ x

    work(None, 0)
    monkeypatch.setattr(_PipelineStageBase, "forward_one_chunk", work)
    torch.cuda.synchronize()
    before = time.monotonic()
    with record() as recording:
        forward(0, 0)
        called = time.monotonic() - before
        forward(0, 1)
        torch.cuda.synchronize()
    after = time.monotonic()
    first, second = recording.actions()
    assert first.end - first.start > 2 * called  # the call had returned long before
    assert before - 1e-3 <= first.start < first.end <= second.start < second.end <= after + 1e-3
