"""What a step costs beside its work, read off recordings of pipelines whose work is known."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import fmean

from rankbook.parallel.durations import Overheads
from rankbook.parallel.timeline import Action, Timeline


def measure_overheads(steps: Iterable[tuple[Timeline, Timeline]]) -> Overheads:
    """The overheads of `steps`, each as recorded and as simulated without any, of equal actions.

    Means, because what is paid along a step adds up. Overheads that no step shows are 0.

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
        waited, others = [], []
        for before, sender, action in _starts(recorded):
            if before is None or (sender is not None and sender.end > before.end):
                waited.append(action.start - sender.end)
            else:
                others.append((before, sender, action))
        message += waited
        # what was sent just before may still have been on its way
        lately = fmean(waited) if waited else 0.0
        between += [
            action.start - before.end
            for before, sender, action in others
            if sender is None or sender.end + lately < before.end
        ]
    return Overheads(
        # a clock of many machines can be wrong by more than a message takes
        {kind: max(0.0, fmean(found)) for kind, found in inside.items()},
        max(0.0, fmean(between)) if between else 0.0,
        max(0.0, fmean(message)) if message else 0.0,
    )


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
        for before, action in pairwise([None, *line.computed(rank)]):
            step = {"F": -1, "B": 1, "I": 1}.get(action.kind, 0)
            kind = "F" if action.kind == "F" else "B"
            sender = done.get((action.stage + step, kind, action.microbatch)) if step else None
            if sender is not None and sender.rank == rank:
                sender = None
            if before is not None or sender is not None:
                yield before, sender, action
