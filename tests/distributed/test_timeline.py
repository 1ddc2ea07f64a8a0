"""The recorder writes down what every schedule did, as it was, and changes nothing.

Stages that sleep instead of computing make the schedule visible on any number of cores: what was
recorded is held against the simulator.
"""

import math
from itertools import pairwise

import pytest

from rankbook.parallel.pipeline import (
    Action,
    Timeline,
    action_lists,
    bubble,
    schedule_names,
    simulate,
    simulate_lists,
)
from tests.distributed.launch import run_ranks
from tests.distributed.timeline_ranks import (
    AHEAD,
    SLEEP,
    STEPS,
    TOLERANCE,
    apart,
    plan_for,
    recorded,
)

pytestmark = pytest.mark.long

RANKS = [4]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """For each number of ranks, the results of one launch for all schedules."""
    done = {}

    def run(ranks: int) -> list[dict]:
        if ranks not in done:
            folder = tmp_path_factory.mktemp("ranks")
            done[ranks] = run_ranks(recorded, folder, ranks, schedule_names())
        return done[ranks]

    return run


def timeline(actions: list[tuple]) -> Timeline:
    return Timeline(Action(*action) for action in actions)


def least_idle(steps: list[Timeline], ideal: Timeline) -> float:
    """Of the least disturbed of `steps`, of which each slept twice as long as the one before."""
    works = [{rank: 2**i * work for rank, work in ideal.work.items()} for i in range(len(steps))]
    return min(line.with_work(work).idle_share for line, work in zip(steps, works, strict=True))


def check_complete(line: Timeline, plan) -> None:
    """Each stage did one forward and one backward, whole or in two parts, of each microbatch."""
    kinds = {}
    for action in line.actions:
        if action.kind != "wait":
            kinds.setdefault((action.stage, action.microbatch), []).append(action.kind)
    every = {(s, m) for s in range(plan.stages) for m in range(plan.microbatches)}
    assert kinds.keys() == every
    assert {"".join(kind) for kind in kinds.values()} <= {"FB", "FIW"}
    for rank in line.ranks:
        assert {a.stage for a in line.computed(rank)} == set(plan.stages_of(rank))


def check_causal(line: Timeline, plan) -> None:
    """Nothing starts before what it needs is over, on whichever rank; a rank does one at a time."""
    for rank in line.ranks:
        mine = [action for action in line.actions if action.rank == rank]
        assert all(a.start <= a.end <= b.start for a, b in pairwise(mine))
    when = {(a.stage, a.kind, a.microbatch): a for a in line.actions}

    def backward(stage: int, microbatch: int) -> Action:
        return when.get((stage, "B", microbatch)) or when[stage, "I", microbatch]

    for m in range(plan.microbatches):
        for s in range(plan.stages):
            if s:
                assert when[s - 1, "F", m].end <= when[s, "F", m].start
                assert backward(s, m).end <= backward(s - 1, m).start
            assert when[s, "F", m].end <= backward(s, m).start
            if (s, "W", m) in when:
                assert when[s, "I", m].end <= when[s, "W", m].start


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", schedule_names())
def test_recorded_schedule(name, ranks, runs):
    plan = plan_for(name, ranks)
    by_rank = [results[name] for results in runs(ranks)]
    assert all(result["unchanged"] for result in by_rank)
    assert all(result["steps"] == by_rank[0]["steps"] for result in by_rank)
    steps = [timeline(step) for step in by_rank[0]["steps"]]
    computing = timeline(by_rank[0]["step"])
    assert 1 <= len(steps) <= STEPS
    for line in (*steps, computing):
        assert line.ranks == list(range(ranks)) and line.clock_error == 0
        check_complete(line, plan)
        check_causal(line, plan)
    evaluation = timeline(by_rank[0]["evaluation"])
    forwards = {f"{s}F{m}" for s in range(plan.stages) for m in range(plan.microbatches)}
    assert {a.name for a in evaluation.actions if a.kind != "wait"} == forwards


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", schedule_names())
def test_recorded_equals_simulated(name, ranks, runs):
    plan = plan_for(name, ranks)
    result = runs(ranks)[0][name]
    ideal, lists = simulate(plan, SLEEP), action_lists(plan)
    steps = [timeline(step) for step in result["steps"]]
    for line in (*steps, timeline(result["step"])):
        for rank in line.ranks:
            assert line.order(rank) == ideal.order(rank)
            assert line.in_flight(rank) == ideal.in_flight(rank)
        # with the very durations that were recorded, the simulator loses no time between actions
        took = {(a.stage, a.kind, a.microbatch): a.end - a.start for a in line.actions}
        fastest = simulate_lists(lists, lambda action, took=took: took[action])
        assert fastest.span <= line.span + 1e-6
    for number, line in enumerate(steps):  # sleeps are never shorter than asked for
        assert line.span >= 2**number * ideal.span
    assert least_idle(steps, ideal) == pytest.approx(ideal.idle_share, abs=TOLERANCE)


@pytest.mark.parametrize("ranks", RANKS)
def test_recorded_bubble(ranks, runs):
    for name in ("gpipe", "1f1b"):
        steps = [timeline(step) for step in runs(ranks)[0][name]["steps"]]
        theory = bubble(ranks, plan_for(name, ranks).microbatches)
        ideal = simulate(plan_for(name, ranks), SLEEP)
        assert least_idle(steps, ideal) == pytest.approx(theory, abs=TOLERANCE)


def test_waits_are_what_the_last_rank_of_gpipe_does_first(runs):
    line = timeline(runs(4)[0]["gpipe"]["steps"][-1])  # the least disturbed, and the slowest
    first = next(action for action in line.actions if action.rank == 3)
    assert (first.name, first.kind) == ("3wait0", "wait")
    assert first.end >= max(a.end for a in line.actions if a.name == "2F0")
    # sleeping stages have no other reason to be idle than what they wait for
    computed = sum(a.end - a.start for rank in line.ranks for a in line.computed(rank))
    idle = line.span * len(line.ranks) - computed
    waited = sum(min(a.end, line.start + line.span) - max(a.start, line.start)
                 for a in line.actions if a.kind == "wait")  # fmt: skip
    assert waited >= 0.4 * idle


def test_clocks_of_several_machines(tmp_path):
    by_rank = run_ranks(apart, tmp_path, 2)
    for result in by_rank:
        one, several = timeline(result["one"]), timeline(result["several"])
        assert one.span > AHEAD and result["one_error"] == 0
        # the step itself, and twice what the clocks may be wrong by
        assert several.span < AHEAD / 10 and several.order(1) == one.order(1)
        assert 0 < result["several_error"] < AHEAD / 10
        assert result["offsets"][0] == 0
        assert math.isclose(result["offsets"][1], AHEAD, abs_tol=result["error"])
    assert by_rank[0]["offsets"] == by_rank[1]["offsets"]


def test_torch_sends_what_it_does_side_by_side_when_both_are_done(runs):
    """DualPipeV's pairs run one after the other, and nobody gets the first's result before."""
    plan = plan_for("dualpipev", 4)
    line = timeline(runs(4)[0]["dualpipev"]["steps"][0])
    when = {(a.stage, a.kind, a.microbatch): a for a in line.actions}
    rank_of = {stage: rank for rank in range(4) for stage in plan.stages_of(rank)}
    held_back = 0
    for pair in (action for tasks in action_lists(plan).values() for action in tasks):
        if len(pair) == 2 and pair[0].stage + 1 < plan.stages:
            (stage, _, microbatch), last = pair[0], when[pair[1]]
            assert when[pair[0]].end <= last.start
            if rank_of[stage] != rank_of[stage + 1]:
                assert last.end <= when[stage + 1, "F", microbatch].start
                held_back += 1
    assert held_back
