"""What the ranks did around a Join, and when."""

from collections.abc import Iterable
from typing import NamedTuple


class JoinEvent(NamedTuple):
    """One thing that one rank did; start and end in seconds.

    kind: "forward" (DDP's), "backward", "step" (the optimizer's); "notify": the first Joinable
    says that this rank has an input; "exhausted": the block of Join was left (start is end);
    "ask": Join asks how many ranks have inputs; "main_hook", "post_hook"; "collective".
    name: the class of the hook's Joinable, or the collective: "all_reduce", "broadcast", or
    "gradients" for those of DDP's buckets by a rank that has joined. inside: another event of the
    rank was going on.
    """

    rank: int
    kind: str
    name: str
    start: float
    end: float
    inside: bool = False

    @property
    def label(self) -> str:
        """Kind and name in one line; of a collective, its name."""
        return self.name if self.kind == "collective" else f"{self.kind} {self.name}".strip()


class JoinTimeline:
    """The events of all ranks, in the order in which they began.

    clock_error: by how many seconds clocks of different ranks may differ. Raises ValueError if
    there are none.
    """

    def __init__(self, events: Iterable[JoinEvent], clock_error: float = 0.0):
        # what holds another event comes before it, also where the clock shows the same
        self.events = sorted(events, key=lambda event: (event.start, -event.end))
        self.clock_error = clock_error
        if not self.events:
            raise ValueError("nothing was recorded; put the block of Join inside of record_join()")
        self.ranks = sorted({event.rank for event in self.events})
        self.start = self.events[0].start
        self.span = max(event.end for event in self.events) - self.start

    def __repr__(self) -> str:
        return (
            f"<JoinTimeline: {len(self.events)} events on {len(self.ranks)} ranks, "
            f"{self.span:.4g} s>"
        )

    def of(self, rank: int, *kinds: str) -> list[JoinEvent]:
        """The events of `rank`, of these kinds, or all."""
        return [e for e in self.events if e.rank == rank and (not kinds or e.kind in kinds)]

    def order(self, rank: int, inside: bool = False) -> list[str]:
        """The labels of what `rank` did, in order; with `inside`, also of what lies in others."""
        return [event.label for event in self.of(rank) if inside or not event.inside]

    def count(self, rank: int, kind: str) -> int:
        """How many events of `kind` there are on `rank`."""
        return len(self.of(rank, kind))

    def exhausted(self, rank: int) -> float:
        """Seconds after `start` at which the inputs of `rank` were first used up.

        Raises ValueError if they never were.
        """
        found = self.of(rank, "exhausted")
        if not found:
            raise ValueError(f"rank {rank} did not come to the end of its inputs")
        return found[0].start - self.start
