"""What a step costs beside its work, read off recordings of pipelines whose work is known."""

import os
import time
from collections.abc import Iterable, Iterator
from statistics import fmean

import torch.distributed as dist

from rankbook.core.agreement import gather
from rankbook.parallel.pipeline.durations import Overheads
from rankbook.parallel.pipeline.timeline import Action, Timeline


def measure_overheads(steps: Iterable[tuple[Timeline, Timeline]]) -> Overheads:
    """The overheads of `steps`, each as recorded and as simulated without any, of equal actions.

    Means, because what is paid along a step adds up. Overheads that no step shows are 0::

        bare = simulate(plan, durations)
        overheads = measure_overheads([(recording.gather(), bare)])
        expected = simulate(another_plan, durations, overheads)
    """
    inside, between, message = {}, [], []
    for recorded, nominal in steps:
        work = {_key(action): action.end - action.start for action in nominal.actions}
        for rank in recorded.ranks:
            for action in recorded.computed(rank):
                if work[_key(action)]:  # stage 0's I does nothing
                    took = action.end - action.start
                    inside.setdefault(action.kind, []).append(took - work[_key(action)])
        starts = list(_starts(recorded))
        # what was sent a little earlier may still have been on its way
        lately = max(
            (action.start - sender.end for before, sender, action in starts
             if sender is not None and (before is None or sender.end > before.end)),
            default=0.0,
        )  # fmt: skip
        for before, sender, action in starts:
            waited = before is None or (sender and sender.end + lately > before.end)
            if waited and sender:
                message.append(action.start - sender.end)
            elif before:
                between.append(action.start - before.end)
    return Overheads(
        # a clock of many machines can be wrong by more than a message takes
        {kind: max(0.0, fmean(found)) for kind, found in inside.items()},
        max(0.0, fmean(between)) if between else 0.0,
        max(0.0, fmean(message)) if message else 0.0,
    )


def cores_taken(seconds: float = 0.05, group: dist.ProcessGroup | None = None) -> float:
    """The share of the time in which ranks of this machine that want all cores have none.

    As many ranks of `group` as there are cores ask for one at once, each for `seconds`, until all
    have; all must call, all get the same: the mean. Near 0 on a machine that does nothing else; a
    busy program beside the ranks takes at least a third of a core of two, and less of many.
    """
    ranks, share = dist.get_world_size(group), 0.0
    at_once = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    at_once = at_once or 1
    for first in range(0, ranks, at_once):
        dist.barrier(group)
        if first <= dist.get_rank(group) < first + at_once:
            share = _taken(seconds)
    return fmean(gather(share, group))


def _taken(seconds: float) -> float:
    began, worked = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        pass
    wanted = time.perf_counter() - began
    return max(0.0, 1 - (time.process_time() - worked) / wanted)


def _key(action: Action) -> tuple[int, str, int]:
    return action.stage, action.kind, action.microbatch


def _starts(line: Timeline) -> Iterator[tuple[Action | None, Action | None, Action]]:
    """Each action with the one before it on its rank, and with the other rank's that it needs."""
    done = {}
    for rank in line.ranks:
        for action in line.computed(rank):
            if action.kind != "W":
                kind = "F" if action.kind == "F" else "B"
                done[action.stage, kind, action.microbatch] = action
    for rank in line.ranks:
        before = None
        for action in line.computed(rank):
            step = {"F": -1, "B": 1, "I": 1}.get(action.kind, 0)
            kind = "F" if action.kind == "F" else "B"
            sender = done.get((action.stage + step, kind, action.microbatch)) if step else None
            if sender is not None and sender.rank == rank:
                sender = None
            if before is not None or sender is not None:
                yield before, sender, action
            before = action
