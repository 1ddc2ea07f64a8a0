"""What the ranks of a pipeline did, and when: recorded in a real run, or simulated."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

COMPUTE = ("F", "B", "I", "W")
WAIT = "wait"


class Action(NamedTuple):
    """One thing that one rank did for one microbatch of one stage; start and end in seconds.

    kind: "F" forward; "B" the whole backward; "I" the backward for the stage's input alone, "W"
    for its weights alone; "wait" for what must be there before the rank's next action.
    """

    rank: int
    stage: int
    kind: str
    microbatch: int
    start: float
    end: float

    @property
    def name(self) -> str:
        """As torch writes it: ``3F0`` is the forward of microbatch 0 by stage 3."""
        return f"{self.stage}{self.kind}{self.microbatch}"


class Timeline:
    """The actions of all ranks during one step.

    actions: in any order; those of one rank must not overlap. clock_error: by how many seconds
    clocks of different ranks may differ. work: for each rank, how many seconds its actions would
    take if they cost nothing but their work; None, if nobody knows. Only a timeline with work can
    say what is idle: an action that sleeps too long, or waits for a core, looks busy from outside.
    Raises ValueError if nothing was computed.
    """

    def __init__(
        self,
        actions: Iterable[Action],
        clock_error: float = 0.0,
        work: Mapping[int, float] | None = None,
    ):
        self.actions = sorted(actions, key=lambda action: action.start)
        self.clock_error, self.work = clock_error, work
        if not any(action.kind in COMPUTE for action in self.actions):
            raise ValueError("the timeline is empty; record a step of a pipeline, or simulate one")

    def __repr__(self) -> str:
        idle = "" if self.work is None else f", idle {self.idle_share:.1%}"
        return (
            f"<Timeline: {len(self.actions)} actions on {len(self.ranks)} ranks, "
            f"{self.span:.4g} s{idle}>"
        )

    def with_work(self, work: Mapping[int, float]) -> "Timeline":
        """The same actions, held against `work`: for each rank, the seconds of its work alone."""
        return Timeline(self.actions, self.clock_error, work)

    @cached_property
    def ranks(self) -> list[int]:
        """The ranks that did something."""
        return sorted({action.rank for action in self.actions})

    @cached_property
    def _computed(self) -> dict[int, list[Action]]:
        by_rank = {rank: [] for rank in self.ranks}
        for action in self.actions:
            if action.kind in COMPUTE:
                by_rank[action.rank].append(action)
        return by_rank

    def computed(self, rank: int) -> list[Action]:
        """What `rank` computed, in the order in which it did; without its waits."""
        return self._computed[rank]

    def order(self, rank: int) -> list[str]:
        """The names of what `rank` computed: ``["0F0", "0F1", "0B0", ...]``."""
        return [action.name for action in self.computed(rank)]

    @cached_property
    def start(self) -> float:
        """When the first action of all ranks began."""
        return min(mine[0].start for mine in self._computed.values() if mine)

    @cached_property
    def span(self) -> float:
        """Seconds from the start of the first action to the end of the last, over all ranks."""
        return max(mine[-1].end for mine in self._computed.values() if mine) - self.start

    @cached_property
    def idle_shares(self) -> dict[int, float]:
        """For each rank, the share of the span that its work does not fill: 1 - work / span.

        Raises ValueError if the work is not known.
        """
        if self.work is None:
            raise ValueError(
                "nobody said how much of the time was work; use with_work(...), "
                "with the work of a simulated timeline, for one"
            )
        return {rank: 1 - self.work[rank] / self.span for rank in self.ranks}

    @property
    def idle_share(self) -> float:
        """The share of all ranks' time that no work fills: 1 - work / (ranks x span)."""
        return sum(self.idle_shares.values()) / len(self.ranks)

    def in_flight(self, rank: int) -> int:
        """How many activations `rank` holds at most, each of one microbatch of one stage.

        One is held from the start of its forward to the end of its backward. Of a split backward
        that is the end of W, for which torch keeps the inputs of the layers.
        """
        held = most = 0
        for action in self.computed(rank):
            held += action.kind == "F"
            most = max(most, held)
            held -= action.kind in ("B", "W")
        return most

    def seconds(self, kind: str) -> list[float]:
        """How long each action of `kind` took, over all ranks."""
        return [action.end - action.start for action in self.actions if action.kind == kind]
