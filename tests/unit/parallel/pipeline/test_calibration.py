"""Overheads read off a simulated step are those that were put into it, and predict another one."""

import pytest

from rankbook.parallel.pipeline import (
    Durations,
    Overheads,
    PipelinePlan,
    calibration,
    cores_taken,
    measure_overheads,
    simulate,
)

WORK = Durations(forward=16, input=16, weight=16)
PAID = Overheads({"F": 1.0, "B": 2.0, "I": 1.5, "W": 0.5}, between=0.25, message=0.75)


def steps(*plans: PipelinePlan) -> list:
    return [(simulate(plan, WORK, PAID), simulate(plan, WORK)) for plan in plans]


def test_overheads_are_found_again_and_predict():
    found = measure_overheads(steps(PipelinePlan("loopedbfs", 4, 6), PipelinePlan("zbv", 4, 4)))
    assert found.inside == pytest.approx(PAID.inside)
    assert found.between == pytest.approx(PAID.between)
    assert found.message == pytest.approx(PAID.message, rel=0.2)
    plan = PipelinePlan("interleavedzb", 4, 8)
    expected = simulate(plan, WORK, PAID)
    assert simulate(plan, WORK, found).span == pytest.approx(expected.span, rel=0.01)
    assert simulate(plan, WORK).span < 0.95 * expected.span  # without them it is not
    assert expected.work == simulate(plan, WORK).work  # overheads are no work


def test_overheads_are_not_negative():
    with pytest.raises(ValueError, match="no overhead may be negative"):
        Overheads(message=-1.0)


def test_a_head_is_the_same_work_whatever_the_schedule():
    for name in ("gpipe", "interleaved1f1b", "zbv"):
        plan = PipelinePlan(name, 4, 8)
        work = simulate(plan, Durations(head=0.5)).work
        with_head = 0 if name == "zbv" else 3  # in a V the first rank has the last stage
        assert work == pytest.approx({r: 36 if r == with_head else 24 for r in range(4)})


def test_a_slow_link_lies_between_the_halves():
    slow = Durations(communication=1, between_halves=5)
    assert [slow.message(4, 0, to) for to in (1, 2, 3)] == [1, 5, 5]
    assert slow.message(4, 3, 0) == 5 and slow.message(4, 2, 3) == 1
    plan = PipelinePlan("gpipe", 2, 1)  # there, and back
    assert simulate(plan, slow).span == 6 + 2 * 5


@pytest.mark.parametrize(("cores", "ranks", "asked"), [(1, 3, 3), (2, 4, 2), (64, 4, 1)])
def test_as_many_ranks_as_cores_ask_at_once(cores, ranks, asked, monkeypatch):
    """All ranks ask, each once; between two groups of them stands a barrier."""
    events = []
    monkeypatch.setattr(calibration.os, "sched_getaffinity", lambda _: set(range(cores)), False)
    monkeypatch.setattr(calibration.dist, "get_world_size", lambda group: ranks)
    monkeypatch.setattr(calibration.dist, "get_rank", lambda group: ranks - 1)
    monkeypatch.setattr(calibration.dist, "barrier", lambda group: events.append("barrier"))
    monkeypatch.setattr(calibration, "gather", lambda share, group: [0.0, share])
    monkeypatch.setattr(calibration, "_taken", lambda seconds: events.append("asks") or 0.5)
    assert cores_taken() == 0.25  # the mean of all ranks
    assert events == ["barrier"] * asked + ["asks"]  # the last rank is in the last group


def test_a_rank_that_gets_no_core_says_so(monkeypatch):
    wall, worked = iter([0.0, 0.5, 1.0, 1.0]), iter([0.0, 0.25])
    monkeypatch.setattr(calibration.time, "perf_counter", lambda: next(wall))
    monkeypatch.setattr(calibration.time, "process_time", lambda: next(worked))
    assert calibration._taken(1.0) == 0.75
