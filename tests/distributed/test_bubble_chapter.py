"""What page 24 says of predictions on live ranks: when one fails, its sentence has to go."""

from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist

from rankbook.models import TransformerConfig
from rankbook.parallel.pipeline import (
    Action,
    Durations,
    Overheads,
    Pipeline,
    PipelinePlan,
    Timeline,
    cores_taken,
    measure_overheads,
    record,
    schedule_names,
    simulate,
    sleeping_loss,
    sleeping_stages,
)
from tests.distributed.launch import run_ranks

RANKS = 4
SLEEP = Durations(forward=0.004, input=0.004, weight=0.004)  # seconds
CONFIG = TransformerConfig(vocab_size=4, d_model=8, d_hidden=8, heads=1, layers=8, max_length=4)
SMALL, LARGE = [("loopedbfs", 6), ("zbv", 4)], [("gpipe", 8), ("zbv", 8)]


def recorded(name: str, microbatches: int) -> Timeline:
    """A step of sleeping stages, after one in which they found out shapes and didn't sleep."""
    plan = PipelinePlan(name, RANKS, microbatches)
    stages = sleeping_stages(plan, dist.get_rank(), SLEEP, torch.device("cpu"))
    pipeline = Pipeline(plan, stages, plan.mesh("cpu"), sleeping_loss, CONFIG)
    ids = torch.zeros(microbatches, 4, dtype=torch.int64)
    with patch("rankbook.parallel.pipeline.sleeping._sleep") as asleep:
        pipeline.step(ids, ids)
    assert asleep.called
    with record() as recording:
        pipeline.step(ids, ids)
    return recording.gather()


def measured() -> dict:
    lines = {pair: recorded(*pair) for pair in SMALL + LARGE}
    found = measure_overheads(
        (lines[pair], simulate(PipelinePlan(pair[0], RANKS, pair[1]), SLEEP)) for pair in SMALL
    )
    return {
        "taken": cores_taken(0.02),
        "overheads": (dict(found.inside), found.between, found.message),
        "steps": {name: [tuple(a) for a in lines[name, m].actions] for name, m in LARGE},
    }


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    return run_ranks(measured, tmp_path_factory.mktemp("ranks"), RANKS)


def test_every_rank_measures_the_same(ran):
    assert all(result == ran[0] for result in ran)
    assert 0 <= ran[0]["taken"] <= 1


def test_two_small_pipelines_show_every_overhead(ran):
    inside, between, message = ran[0]["overheads"]
    assert inside.keys() == {"F", "B", "I", "W"}
    # Python and a message cannot cost nothing
    assert min(*inside.values(), between, message) > 0


@pytest.mark.parametrize("name", ["gpipe", "zbv"])
def test_a_prediction_has_the_recorded_order_and_another_schedules_has_not(name, ran):
    line = Timeline(Action(*action) for action in ran[0]["steps"][name])
    overheads = Overheads(*ran[0]["overheads"])
    plan, other = (PipelinePlan(n, RANKS, 8) for n in (name, "1f1b"))
    bare, predicted, wrong = (
        simulate(plan, SLEEP), simulate(plan, SLEEP, overheads), simulate(other, SLEEP, overheads),
    )  # fmt: skip
    for rank in range(RANKS):
        assert line.order(rank) == predicted.order(rank)
        assert line.in_flight(rank) == predicted.in_flight(rank)
    assert any(line.order(rank) != wrong.order(rank) for rank in range(RANKS))
    # a sleep is never shorter than asked for, and nothing is free
    assert bare.span < line.span and bare.span < predicted.span


def test_no_two_schedules_have_the_same_order():
    """GPipe and 1F1B take equally long: the order refuses what the length cannot."""
    lines = {name: simulate(PipelinePlan(name, RANKS, 8)) for name in schedule_names()}
    orders = {str([line.order(rank) for rank in range(RANKS)]) for line in lines.values()}
    assert len(orders) == len(lines) == 7
    assert lines["gpipe"].span == lines["1f1b"].span


def test_overheads_of_a_third_their_size_leave_more_than_half_of_the_error():
    full = Overheads(dict.fromkeys("FBIW", 0.1), 0.03, 0.05)  # of F, for a sleep of 1
    third = Overheads(dict.fromkeys("FBIW", 0.1 / 3), 0.01, 0.05 / 3)

    def worst(overheads: Overheads | None) -> float:
        plans = [PipelinePlan(name, RANKS, 8) for name in schedule_names()]
        pairs = [(simulate(p, None, overheads).span, simulate(p, None, full).span) for p in plans]
        return max(abs(found / right - 1) for found, right in pairs)

    assert worst(full) < worst(None) / 2 < worst(third)


def test_a_slow_link_delays_gpipe_by_two_messages_and_interleaved_zero_bubble_by_twenty():
    def delay(name: str) -> float:
        plan = PipelinePlan(name, 8, 16)
        slow, fast = (simulate(plan, Durations(between_halves=s)).span for s in (1.0, 0.0))
        return slow - fast

    names = "gpipe", "1f1b", "interleaved1f1b", "interleavedzb", "zbv"
    assert [delay(name) for name in names] == [2, 14, 7, 20, 10.5]
