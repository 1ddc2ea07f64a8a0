"""Timelines by hand, and a recorder that leaves no trace."""

import pickle

import pytest
from torch.distributed.pipelining import schedules as torch_schedules
from torch.distributed.pipelining.schedules import _PipelineSchedule
from torch.distributed.pipelining.stage import _PipelineStageBase

from rankbook.parallel import Action, Timeline, record

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
    assert line.idle_shares == {0: 1 - 6 / 8, 1: 1 - 3 / 8}
    assert line.idle_share == 1 - 9 / 16
    assert line.order(0) == ["0F0", "0F1", "0B0", "0B1"]
    assert line.order(1) == ["1F0", "1I0", "1W0"]
    assert line.seconds("F") == [1.0, 1.0, 1.0] and line.seconds("wait") == [3.0]
    assert repr(line) == "<Timeline: 8 actions on 2 ranks, 8 s, idle 43.8%>"
    assert pickle.loads(pickle.dumps(line)).actions == line.actions


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
