"""How long things take in a simulated pipeline: the work itself, and what is paid beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankbook.parallel.pipeline.planned_actions import PlannedAction


@dataclass(frozen=True)
class Durations:
    """How long the work on one microbatch takes one rank, all of its stages together.

    forward; input and weight: the two halves of the backward; communication: until what one rank
    sends has arrived at another, during which both compute on. In any unit. A rank with two
    stages has the same layers in two pieces: one stage takes half of the time.

    head: what the last stage has to do beside its layers, as a share of what a rank does: with
    0.5, the rank that holds the last stage works 1.5 times as long as the others, whatever the
    schedule. between_halves: instead of `communication`, from the first half of the ranks to the
    second and back, as if each half were on a machine of its own; None: as everywhere.
    """

    forward: float = 1.0
    input: float = 1.0
    weight: float = 1.0
    communication: float = 0.0
    head: float = 0.0
    between_halves: float | None = None

    def __post_init__(self):
        work = self.forward, self.input, self.weight
        more = self.communication, self.head, self.between_halves or 0.0
        if min(*work, *more) < 0 or not any(work):
            raise ValueError(f"{self}: no duration may be negative, and some work must take time")

    @property
    def backward(self) -> float:
        """How long the whole backward takes: that of input and weights."""
        return self.input + self.weight

    def of(self, action: PlannedAction, stages_per_rank: int = 1, last: bool = False) -> float:
        """How long `action` takes in torch on a rank of `stages_per_rank`, which share its work.

        last: whether it belongs to the last stage, which has the head.
        Stage 0 has an input without gradient. torch does nothing in its I and all in its W.
        """
        share = 1 / stages_per_rank + (self.head if last else 0.0)
        if action.stage == 0 and action.kind in ("I", "W"):
            return self.backward * share if action.kind == "W" else 0.0
        kinds = {"F": self.forward, "B": self.backward, "I": self.input, "W": self.weight}
        return kinds[action.kind] * share

    def message(self, ranks: int, sender: int, receiver: int) -> float:
        """How long what `sender` sends takes to `receiver`, both of `ranks` ranks."""
        if self.between_halves is not None and (2 * sender < ranks) != (2 * receiver < ranks):
            return self.between_halves
        return self.communication


@dataclass(frozen=True)
class Overheads:
    """What torch and the machine add to the work, in the unit of the durations.

    inside: what an action takes longer than its work, by kind; 0 for kinds that are not named.
    between: from the end of an action to the start of the next one of its rank, if that one need
    not wait. message: from the end of an action to the start of another rank's that waited for
    its result. Raises ValueError if one is negative.
    """

    inside: Mapping[str, float] = field(default_factory=dict)
    between: float = 0.0
    message: float = 0.0

    def __post_init__(self):
        if min(self.between, self.message, *self.inside.values()) < 0:
            raise ValueError(f"{self}: no overhead may be negative")
