"""A simulator of pipelines: torch's own action lists, run by a clock that costs no time."""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

from rankbook.parallel.plan import PipelinePlan
from rankbook.parallel.planned_actions import ActionLists, PlannedAction, action_lists
from rankbook.parallel.schedules import find_schedule
from rankbook.parallel.timeline import COMPUTE, Action, Timeline


@dataclass(frozen=True)
class Durations:
    """How long the work on one microbatch takes one rank, all of its stages together.

    forward; input and weight: the two halves of the backward; communication: until what one rank
    sends has arrived at another, during which both compute on. In any unit. A rank with two
    stages has the same layers in two pieces: one stage takes half of the time.
    """

    forward: float = 1.0
    input: float = 1.0
    weight: float = 1.0
    communication: float = 0.0

    def __post_init__(self):
        work = self.forward, self.input, self.weight
        if min(*work, self.communication) < 0 or not any(work):
            raise ValueError(f"{self}: no duration may be negative, and some work must take time")

    @property
    def backward(self) -> float:
        """How long the whole backward takes: that of input and weights."""
        return self.input + self.weight

    def of(self, action: PlannedAction, stages_per_rank: int = 1) -> float:
        """How long `action` takes in torch on a rank of `stages_per_rank`, which share its work.

        Stage 0 has an input without gradient. torch does nothing in its I and all in its W.
        """
        if action.stage == 0 and action.kind in ("I", "W"):
            return self.backward / stages_per_rank if action.kind == "W" else 0.0
        kinds = {"F": self.forward, "B": self.backward, "I": self.input, "W": self.weight}
        return kinds[action.kind] / stages_per_rank


def simulate(plan: PipelinePlan, durations: Durations | None = None) -> Timeline:
    """One step of one pipeline of `plan`, from time 0, with the `durations` given or the default.

    A rank does what its list says, one after the other, each as soon as its input is there.
    """
    durations = durations or Durations()
    each = {
        (stage, kind): durations.of(PlannedAction(stage, kind, 0), plan.stages // plan.ranks)
        for stage in range(plan.stages)
        for kind in COMPUTE
    }
    with _no_collection():
        lists = action_lists(plan)
        return simulate_lists(lists, lambda t: each[t.stage, t.kind], durations.communication)


def simulate_lists(
    lists: ActionLists, seconds: Callable[[PlannedAction], float], communication: float = 0.0
) -> Timeline:
    """As `simulate`, for any lists; `seconds` says how long an action takes.

    communication: seconds between the end of an action and the arrival of its result elsewhere.

    Raises ValueError if ranks wait for each other for ever, or for what nobody does.
    """
    return _Run(lists, seconds, communication).timeline()


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
) -> list[dict]:
    """Simulate all combinations that can run; those that a `PipelinePlan` refuses are left out.

    schedules: names of `schedule_names()`. durations: the default's, if None.

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
            timeline = simulate(plan, durations)
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


class _Run:
    """Ranks that go through their lists as far as they can, and wait for what is not there yet."""

    def __init__(self, lists: ActionLists, seconds: Callable[[PlannedAction], float], delay: float):
        self.seconds, self.delay = seconds, delay
        # each rank's actions, each with: is it the last of those that are joined to one?
        self.lists = {
            rank: [(action, action is joined[-1]) for joined in actions for action in joined]
            for rank, actions in lists.items()
        }
        self.last = max(action.stage for planned in self.lists.values() for action, _ in planned)
        self.done = dict.fromkeys(lists, 0)  # how many actions, by rank
        self.clock = dict.fromkeys(lists, 0.0)
        self.outbox = {rank: [] for rank in lists}  # results of an action that is not over
        self.here = {rank: {} for rank in lists}  # a rank's own results, and since when
        self.arrived = {}  # results on other ranks, and since when
        self.waiting = {}  # a result, and the ranks that wait for it
        self.actions = []

    def timeline(self) -> Timeline:
        ready = list(self.lists)
        while ready:
            ready += self.advance(ready.pop())
        if any(self.done[rank] < len(planned) for rank, planned in self.lists.items()):
            raise ValueError(self.deadlock())
        return Timeline(self.actions)

    def advance(self, rank: int) -> list[int]:
        """Go on with `rank` until it must wait, or is done; the ranks that need no longer wait."""
        planned, here, outbox, freed = self.lists[rank], self.here[rank], self.outbox[rank], []
        while self.done[rank] < len(planned):
            action, closes = planned[self.done[rank]]
            start = self.clock[rank]
            for result in self.inputs(action):
                since = here.get(result, self.arrived.get(result))
                if since is None:
                    self.waiting.setdefault(result, []).append(rank)
                    return freed
                start = max(start, since)
            end = self.clock[rank] = start + self.seconds(action)
            self.actions.append(Action(rank, *action, start, end))
            self.done[rank] += 1
            if action.kind != "W":
                result = action.stage, "F" if action.kind == "F" else "B", action.microbatch
                here[result] = end
                outbox.append(result)
            if closes:
                for result in outbox:
                    self.arrived[result] = end + self.delay
                    freed += self.waiting.pop(result, ())
                outbox.clear()
        return freed

    def inputs(self, action: PlannedAction) -> list[tuple[int, str, int]]:
        """The results that `action` needs; "B" is a gradient, of a whole backward or of I."""
        stage, kind, microbatch = action
        if kind == "F":
            return [(stage - 1, "F", microbatch)] if stage else []
        if kind == "W":
            return [(stage, "B", microbatch)]
        gradient = [(stage + 1, "B", microbatch)] if stage < self.last else []
        return [(stage, "F", microbatch), *gradient]

    def deadlock(self) -> str:
        stuck = sorted((rank, result) for result, ranks in self.waiting.items() for rank in ranks)
        waits = [
            f"rank {rank} cannot start {self.lists[rank][self.done[rank]][0].name} before "
            f"{result[0]}{result[1]}{result[2]}"
            for rank, result in stuck
        ]
        more = f", and {len(waits) - 3} more" if len(waits) > 3 else ""
        return f"the action lists never end: {', '.join(waits[:3])}{more}; change their order"
