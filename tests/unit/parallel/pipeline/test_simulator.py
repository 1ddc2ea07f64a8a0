"""The simulator against formulas and against schedules worked out by hand."""

import logging

import pytest
from torch.distributed.pipelining.schedules import Schedule1F1B, ScheduleGPipe

from rankbook.parallel.pipeline import (
    Durations,
    PipelinePlan,
    PlannedAction,
    action_lists,
    bubble,
    schedule_names,
    simulate,
    simulate_lists,
    sweep,
)
from rankbook.parallel.pipeline.planned_actions import _NotingStage


def names(lists: dict, rank: int) -> list[str]:
    return [action.name for joined in lists[rank] for action in joined]


def in_order(*names: str) -> list[tuple[PlannedAction]]:
    """Of names with one digit for the stage and one for the microbatch."""
    return [(PlannedAction(int(name[0]), name[1], int(name[2])),) for name in names]


def unit(action: PlannedAction) -> float:
    return 1.0


@pytest.mark.parametrize("backward", [0.5, 1, 2, 3.5])
@pytest.mark.parametrize(("ranks", "microbatches"), [(1, 1), (2, 3), (4, 1), (4, 16), (16, 64)])
def test_gpipes_bubble_is_the_formula_whatever_the_backward_takes(ranks, microbatches, backward):
    durations = Durations(forward=1, input=backward / 4, weight=backward * 3 / 4)
    timeline = simulate(PipelinePlan("gpipe", ranks, microbatches), durations)
    assert timeline.idle_share == pytest.approx(bubble(ranks, microbatches))
    assert timeline.span == pytest.approx((microbatches + ranks - 1) * (1 + backward))
    assert all(timeline.in_flight(rank) == microbatches for rank in range(ranks))


@pytest.mark.parametrize(("ranks", "microbatches"), [(1, 1), (4, 4), (4, 16), (64, 512)])
def test_1f1b_has_the_same_bubble_and_holds_less(ranks, microbatches):
    timeline = simulate(PipelinePlan("1f1b", ranks, microbatches))
    assert timeline.idle_share == pytest.approx(bubble(ranks, microbatches))
    assert [timeline.in_flight(rank) for rank in range(ranks)] == list(range(ranks, 0, -1))


@pytest.mark.parametrize("name", ["interleaved1f1b", "loopedbfs"])
@pytest.mark.parametrize(("ranks", "held"), [(2, 2), (4, 2), (4, 4)])
def test_more_stages_per_rank_divide_the_bubble(name, ranks, held):
    microbatches = 4 * ranks
    timeline = simulate(PipelinePlan(name, ranks, microbatches, stages=held * ranks))
    bubbles = (ranks - 1) / held  # https://arxiv.org/abs/2104.04473, section 2.2
    assert timeline.idle_share == pytest.approx(bubbles / (microbatches + bubbles))
    assert timeline.span == pytest.approx(3 * (microbatches + bubbles))  # as many layers as ever


def test_zero_bubble_idles_and_holds_no_more_than_1f1b():
    plans = {name: PipelinePlan(name, 8, 32) for name in ("1f1b", "interleavedzb", "zbv")}
    idle = {name: simulate(plan).idle_share for name, plan in plans.items()}
    assert max(idle["zbv"], idle["interleavedzb"]) < 0.25 * idle["1f1b"]
    rows = {row["schedule"]: row for row in sweep(plans, [8], [32])}
    assert rows["zbv"]["in_flight"] <= rows["1f1b"]["in_flight"] == 8


@pytest.mark.parametrize("name", schedule_names())
@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_lists_are_complete_and_can_be_run(name, ranks):
    plan = PipelinePlan(name, ranks, 3 * ranks)
    lists = action_lists(plan)
    assert list(lists) == list(range(ranks))
    for rank in range(ranks):
        done = {}
        for stage, kind, microbatch in (action for joined in lists[rank] for action in joined):
            done.setdefault((stage, microbatch), []).append(kind)
        every = {(s, m) for s in plan.stages_of(rank) for m in range(plan.microbatches)}
        assert done.keys() == every
        assert {"".join(kinds) for kinds in done.values()} <= {"FB", "FIW"}
    work = ranks * 3 * plan.microbatches
    timeline = simulate(plan)
    busy = (1 - timeline.idle_share) * timeline.span * ranks
    assert busy == pytest.approx(work)
    slower = simulate(plan, Durations(communication=0.5))
    assert (slower.span > timeline.span) == (ranks > 1)
    assert all(slower.order(rank) == names(lists, rank) for rank in range(ranks))


def test_torchs_lists_of_single_stage_schedules():
    """GPipe's agrees with what its loop does. 1F1B's has a microbatch too many on the last rank."""

    def torchs(cls, rank: int) -> list[str]:
        plan = PipelinePlan("1f1b", 3, 4)
        order = cls(_NotingStage(plan, rank, rank), 4).pipeline_order[rank]
        return [str(a) for a in order if a is not None and a.is_compute_op]

    gpipe, one = (action_lists(PipelinePlan(name, 3, 4)) for name in ("gpipe", "1f1b"))
    assert [torchs(ScheduleGPipe, rank) for rank in range(3)] == [names(gpipe, r) for r in range(3)]
    assert [torchs(Schedule1F1B, rank) for rank in (0, 1)] == [names(one, r) for r in (0, 1)]
    assert names(one, 2) == ["2F0", "2B0", "2F1", "2B1", "2F2", "2B2", "2F3", "2B3"]
    assert torchs(Schedule1F1B, 2) == ["2F1", "2B0", "2F2", "2B1", "2F3", "2B2", "2F4", "2B3"]


def test_communication_by_hand():
    timeline = simulate(PipelinePlan("gpipe", 2, 2), Durations(1, 1, 1, communication=0.25))
    times = {action.name: (action.start, action.end) for action in timeline.actions}
    assert times == {
        "0F0": (0, 1), "0F1": (1, 2), "1F0": (1.25, 2.25), "1F1": (2.25, 3.25),
        "1B0": (3.25, 5.25), "1B1": (5.25, 7.25), "0B0": (5.5, 7.5), "0B1": (7.5, 9.5),
    }  # fmt: skip
    on_one_rank = PipelinePlan("loopedbfs", 1, 2)
    assert simulate(on_one_rank, Durations(communication=9.0)).span == simulate(on_one_rank).span


def test_what_is_done_together_is_sent_together():
    pair = (PlannedAction(0, "F", 1), PlannedAction(2, "B", 0))
    first = [*in_order("0F0", "2F0"), pair, *in_order("0B0", "2F1", "2B1", "0B1")]
    second = in_order("1F0", "1F1", "1B0", "1B1")
    alone = [(action,) for joined in first for action in joined]

    def start_of_1f1(mine: list) -> float:
        timeline = simulate_lists({0: mine, 1: second}, unit)
        return next(action.start for action in timeline.actions if action.name == "1F1")

    assert (start_of_1f1(alone), start_of_1f1(first)) == (4.0, 5.0)


def test_torch_leaves_all_of_stage_0s_backward_to_w():
    durations = Durations(forward=1, input=2, weight=3)
    timeline = simulate(PipelinePlan("interleavedzb", 2, 4), durations)
    took = {a.name: a.end - a.start for a in timeline.actions}
    assert (took["0F0"], took["0I0"], took["0W0"]) == (0.5, 0, 2.5)
    assert (took["1F0"], took["1I0"], took["1W0"]) == (0.5, 1, 1.5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["interleavedzb", "zbv"])
def test_64_ranks_and_512_microbatches(name):
    timeline = simulate(PipelinePlan(name, 64, 512))
    assert len(timeline.actions) == 128 * 512 * 3
    assert 0 < timeline.idle_share < bubble(64, 512) / 4


def test_a_deadlock_is_one_sentence():
    first, second = in_order("0F0", "0B0", "0F1", "0B1"), in_order("1F1", "1B1", "1F0", "1B0")
    with pytest.raises(ValueError) as raised:
        simulate_lists({0: first, 1: second}, unit)
    assert str(raised.value) == (
        "the action lists never end: rank 0 cannot start 0B0 before 1B0, "
        "rank 1 cannot start 1F1 before 0F1; change their order"
    )
    with pytest.raises(ValueError, match="rank 0 cannot start 0W0 before 0B0; change"):
        simulate_lists({0: in_order("0F0", "0W0", "0I0")}, unit)


def test_many_deadlocked_ranks_are_not_all_listed():
    with pytest.raises(ValueError, match=r"never end: (rank [^,]*, ){3}and 2 more; change"):
        simulate_lists({rank: in_order(f"{rank + 1}F0") for rank in range(5)}, unit)


@pytest.mark.parametrize("durations", [{"input": -1}, {"communication": -0.5}])
def test_negative_durations(durations):
    with pytest.raises(ValueError, match="no duration may be negative"):
        Durations(**durations)
    with pytest.raises(ValueError, match="some work must take time"):
        Durations(0, 0, 0)


def test_sweep():
    rows = sweep(["gpipe", "1f1b", "interleaved1f1b"], [2, 4], [3, 4])
    assert [(r["schedule"], r["ranks"], r["microbatches"]) for r in rows] == [
        ("gpipe", 2, 3), ("gpipe", 2, 4), ("gpipe", 4, 3), ("gpipe", 4, 4),
        ("1f1b", 2, 3), ("1f1b", 2, 4), ("1f1b", 4, 4),  # three microbatches are too few for 4
        ("interleaved1f1b", 2, 3), ("interleaved1f1b", 2, 4),
        ("interleaved1f1b", 4, 3), ("interleaved1f1b", 4, 4),
    ]  # fmt: skip
    for row in rows[:4]:
        assert row["idle"] == pytest.approx(bubble(row["ranks"], row["microbatches"]))
        assert row["in_flight"] == row["microbatches"]
    interleaved = simulate(PipelinePlan("interleaved1f1b", 4, 4))
    assert rows[-1]["in_flight"] == max(interleaved.in_flight(r) for r in range(4)) / 2
    with pytest.raises(ValueError, match="schedule 'x' is unknown"):
        sweep(["x"], [2], [4])


def test_simulations_say_nothing(caplog, capsys):
    with caplog.at_level(logging.WARNING):
        for name in schedule_names():
            simulate(PipelinePlan(name, 2, 4))
    assert not caplog.records and capsys.readouterr() == ("", "")
