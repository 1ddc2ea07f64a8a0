"""What is known of a schedule is what torch's own does; what is left of it for evaluation."""

from types import SimpleNamespace

import pytest
from torch.distributed.pipelining.schedules import get_schedule_class

from rankbook.parallel.pipeline import PipelinePlan, schedule_names
from rankbook.parallel.pipeline.forward_only import _without_idle
from rankbook.parallel.pipeline.planned_actions import action_lists
from rankbook.parallel.pipeline.schedules import find_schedule


def actions(line: str) -> list:
    """From ``0U 0F 0R``: stage, and what is done with it."""
    kinds = {"U": "UNSHARD", "R": "RESHARD", "F": "F"}
    return [
        SimpleNamespace(
            computation_type=SimpleNamespace(value=kinds[word[1]]), stage_index=int(word[0])
        )
        for word in line.split()
    ]


def said(line: str) -> str:
    kept = _without_idle(actions(line))
    return " ".join(f"{each.stage_index}{each.computation_type.value[0]}" for each in kept)


def test_nothing_is_gathered_that_no_forward_needs():
    assert said("0U 1U 0F 0R 1F 1R") == "0U 1U 0F 0R 1F 1R"
    # between: for a backward pass that does not come
    assert said("0U 0F 0R 1U 1R 0U 0F 1U 1R 0R 1U") == "0U 0F 0R 0U 0F 0R"
    assert said("1U 0U 1F 0R 1R") == "1U 1F 1R"
    assert said("0U 0F 1U 1F 0R") == "0U 0F 1U 1F 0R"  # never let go: nor was it before


@pytest.mark.parametrize("name", schedule_names())
def test_a_schedule_splits_the_backward_pass_if_torchs_lists_do(name):
    lists = action_lists(PipelinePlan(name, 2, 4)).values()
    kinds = {action.kind for together in lists for each in together for action in each}
    assert kinds == ({"F", "I", "W"} | kinds if find_schedule(name).splits_backward else {"F", "B"})


@pytest.mark.parametrize("name", schedule_names())
def test_torch_finds_a_schedule_by_its_name(name):
    kind = find_schedule(name)
    assert kind.cls.__name__ == f"Schedule{kind.torch_name}"
    assert get_schedule_class(kind.torch_name) is kind.cls


@pytest.mark.parametrize("name", schedule_names())
def test_a_schedule_that_needs_a_microbatch_a_stage_refuses_fewer(name):
    kind = find_schedule(name)
    stages = 2 * kind.stages_per_rank
    if kind.fills:
        with pytest.raises(ValueError, match=f"use {stages} microbatches or more"):
            kind.check(2, stages, stages - 1)
    elif not kind.in_rounds:
        kind.check(2, stages, 1)
    if kind.in_rounds:
        with pytest.raises(ValueError, match="in 2 equal rounds; use 4"):
            kind.check(2, stages, 5)
