"""The worlds of a job whose nodes come and go, and what lies between them.

Everything is read from the events that the ranks of `rankbook.programs.elastic` write: mappings
with "time" (seconds since the epoch), "event", "node", "rank", "world_size", "pid" and "attempt",
and for the event "step" also "step" and "loss". "attempt" is the same on all ranks that were
started together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from plots.tables import Table

STARTED = "started again"  # what happened, where somebody started the job anew
ENDED = "the job ended"


@dataclass(frozen=True)
class World:
    """A world as its rank 0 saw it: from the start of that process to its last event."""

    size: int
    steps: tuple[tuple[float, int, float], ...]  # (time, step, loss) of each step that it finished


@dataclass(frozen=True)
class Gap:
    """The time without a step between two worlds: from the last step to the next one."""

    start: float
    end: float
    before: int  # world sizes
    after: int
    redone: int  # steps that the old world had finished, and the new one did again

    @property
    def seconds(self) -> float:
        """How long no step was finished."""
        return self.end - self.start


@dataclass(frozen=True)
class Life:
    """Of one worker process, as far as its events tell."""

    node: str
    rank: int
    start: float
    end: float
    killed: bool  # it ended without a word


def grouped(events: Iterable[Mapping], *names: str) -> list[list[Mapping]]:
    """The events that agree in the fields `names`, by the time of their first."""
    groups = {}
    for event in sorted(events, key=lambda e: e["time"]):
        groups.setdefault(tuple(event[name] for name in names), []).append(event)
    return list(groups.values())


def elastic_worlds(events: Iterable[Mapping]) -> list[World]:
    """The worlds in the order of time; those that did not finish a step are left out.

    Raises ValueError if no rank 0 finished a step.
    """
    found = []
    zero = [e for e in events if e["rank"] == 0]
    for own in grouped(zero, "attempt"):
        steps = tuple((e["time"], e["step"], e["loss"]) for e in own if e["event"] == "step")
        if steps:
            found.append(World(own[0]["world_size"], steps))
    if not found:
        raise ValueError(
            "elastic_worlds: no rank 0 finished a step; are these the events of one run?"
        )
    return found


def elastic_gaps(events: Iterable[Mapping]) -> list[Gap]:
    """What lies between each world and the next."""
    found = []
    for old, new in pairwise(elastic_worlds(events)):
        (end, last, _), (start, first, _) = old.steps[-1], new.steps[0]
        found.append(Gap(end, start, old.size, new.size, max(0, last + 1 - first)))
    return found


def elastic_lives(
    events: Iterable[Mapping], faults: Iterable[tuple[float, str, str]] = ()
) -> list[Life]:
    """The life of every worker, by its start: from its first event to its last.

    A worker whose last word is that it started, or did a step, was killed: it lived on until the
    first fault of its life, if that is later. faults: (time, node, what happened).
    """
    struck, found = sorted(time for time, _, _ in faults), []
    for own in grouped(events, "attempt", "pid"):
        first, last = own[0], own[-1]
        end, killed = last["time"], last["event"] in ("start", "step")
        if killed:
            end = max(end, next((time for time in struck if time >= first["time"]), end))
        found.append(Life(first["node"], first["rank"], first["time"], end, killed))
    return found


def elastic_table(events: Sequence[Mapping], faults: Iterable[tuple[float, str, str]]) -> Table:
    """One row a fault: the worlds before and after it, and what it cost.

    faults: (time, node, what happened). A fault belongs to the first gap that ends after it; where
    several do, the first has its numbers. One after which nobody stopped has none. One that ended
    the job, so that somebody STARTED it again, says so: the gap is that of the new start.
    """
    between, rows, taken, faults = elastic_gaps(events), [], None, sorted(faults)
    for number, (time, node, what) in enumerate(faults, 1):
        row = [str(number), f"{node}: {what}", "", "", "", ""]
        gap = next((gap for gap in between if gap.end > time), None)
        if gap is not None and STARTED in [w for t, _, w in faults if time < t < gap.end]:
            rows.append([*row[:2], ENDED, "", "", ""])
            continue
        if gap is not None:
            row[3] = f"{gap.end - time:.1f}"
        if gap is not None and gap is not taken:
            row[2], row[4:] = (
                f"{gap.before} to {gap.after}",
                [f"{gap.seconds:.1f}", str(gap.redone)],
            )
        rows.append(row)
        taken = gap
    head = ["", "what happened", "world size", "s to the next step", "s without a step", "redone"]
    return Table(head, rows)
