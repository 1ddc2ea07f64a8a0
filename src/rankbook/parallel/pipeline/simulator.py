"""A simulator of pipelines: torch's own action lists, run by a clock that costs no time."""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product

from rankbook.parallel.pipeline.durations import Durations, Overheads
from rankbook.parallel.pipeline.list_run import ListRun
from rankbook.parallel.pipeline.plan import PipelinePlan
from rankbook.parallel.pipeline.planned_actions import ActionLists, PlannedAction, action_lists
from rankbook.parallel.pipeline.schedules import find_schedule
from rankbook.parallel.pipeline.timeline import COMPUTE, Timeline


def simulate(
    plan: PipelinePlan, durations: Durations | None = None, overheads: Overheads | None = None
) -> Timeline:
    """One step of one pipeline of `plan`, from time 0, with the `durations` given or the default.

    A rank does what its list says, one after the other, each as soon as its input is there.
    overheads: what is paid beside the work; nothing, if None. The timeline's work is without them.
    """
    durations = durations or Durations()
    each = {
        (stage, kind): durations.of(
            PlannedAction(stage, kind, 0), plan.stages // plan.ranks, stage == plan.stages - 1
        )
        for stage in range(plan.stages)
        for kind in COMPUTE
    }
    with _no_collection():
        lists, delay = action_lists(plan), partial(durations.message, plan.ranks)
        run = ListRun(lists, lambda t: each[t.stage, t.kind], delay, overheads or Overheads())
        return run.timeline()


def simulate_lists(
    lists: ActionLists, seconds: Callable[[PlannedAction], float], communication: float = 0.0
) -> Timeline:
    """As `simulate`, for any lists; `seconds` says how long an action takes.

    communication: seconds between the end of an action and the arrival of its result elsewhere.

    Raises ValueError if ranks wait for each other for ever, or for what nobody does.
    """
    return ListRun(lists, seconds, lambda *_: communication, Overheads()).timeline()


def bubble(ranks: int, microbatches: int) -> float:
    """The idle share of GPipe and 1F1B with equal stages: (p - 1) / (m + p - 1).

    p: `ranks`, with one stage each. m: `microbatches`.

    Source: GPipe, https://arxiv.org/abs/1811.06965, section 2.3.
    """
    return (ranks - 1) / (microbatches + ranks - 1)


def sweep(
    schedules: Iterable[str],
    ranks: Sequence[int],
    microbatches: Sequence[int],
    durations: Durations | None = None,
    overheads: Overheads | None = None,
) -> list[dict]:
    """Simulate all combinations that can run; those that a `PipelinePlan` refuses are left out.

    schedules: names of `schedule_names()`. durations, overheads: as for `simulate`.

    Returns for each {"schedule", "ranks", "microbatches", "idle", "in_flight"}. in_flight: of the
    rank that holds most, in activations of one microbatch through all layers of a rank: where a
    rank has two stages, an activation of one of them counts half. Raises ValueError for an unknown
    schedule.
    """
    rows = []
    for kind in map(find_schedule, schedules):
        for p, m in product(ranks, microbatches):
            try:
                plan = PipelinePlan(kind.name, p, m)
            except ValueError:
                continue
            timeline = simulate(plan, durations, overheads)
            most = max(timeline.in_flight(rank) for rank in timeline.ranks)
            row = {"schedule": plan.schedule, "ranks": p, "microbatches": m}
            row |= {"idle": timeline.idle_share, "in_flight": most * p / plan.stages}
            rows.append(row)
    return rows


@contextmanager
def _no_collection() -> Iterator[None]:
    """No search for garbage: among 200,000 actions that stay, it would take half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
