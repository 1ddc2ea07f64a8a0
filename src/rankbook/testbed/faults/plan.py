"""What shall go wrong in a run, drawn from a seed: the same seed gives the same plan."""

import random
import zlib
from dataclasses import dataclass, field

from rankbook.testbed.faults.kinds import KINDS, FaultKind

MAX_NODES = 3
EPOCH = 5  # steps of an epoch: 50 samples in batches of 12, the last of 2
MOST_STEPS = 100
ORIGINAL = 12  # kinds that a seed's own stream draws from, for ever: recorded results name seeds
LATER_EVERY = 6  # seeds of which one has a given later kind


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    kind: a name in `KINDS`. steps: it strikes when so many steps are done since the job recovered
    from the fault before it. seconds: instead, so long after the fault before it, recovered or
    not; 0 if `steps` counts. draw: in [0, 1), chooses the target, and one of a kind's variants.
    """

    kind: str
    steps: int
    draw: float
    seconds: float = 0.0

    def __str__(self) -> str:
        when = f"{self.seconds} s later" if self.seconds else f"after {self.steps} steps"
        return f"{self.kind} {when} (draw {self.draw})"


@dataclass(frozen=True)
class Plan:
    """A run: agents, workers of each, steps to train, and what goes wrong on the way.

    sharded: whether each rank writes its part of a checkpoint, while training goes on.
    """

    seed: int
    nodes: int
    workers: int
    steps: int
    faults: tuple[Fault, ...] = field(default_factory=tuple)
    sharded: bool = False

    def __str__(self) -> str:
        start = f"{self.nodes} agents with {self.workers} workers each, {self.steps} steps"
        start += ", sharded checkpoints" * self.sharded
        return "; ".join([f"seed {self.seed}: {start}", *map(str, self.faults)])

    @property
    def kinds(self) -> set[str]:
        """The names of the kinds of faults in it."""
        return {fault.kind for fault in self.faults}


def draw_plan(seed: int) -> Plan:
    """The plan of `seed`: one to three faults of the original kinds, and those that joined later.

    The first fault is of kind ``seed % ORIGINAL``: any dozen seeds in a row have each of these. A
    later kind draws from a stream of its own and comes last, in every sixth seed in which the
    number of nodes permits it. So it leaves all other faults of all seeds as they are.
    """
    draw = random.Random(seed)
    original = list(KINDS.values())[:ORIGINAL]
    first = original[seed % ORIGINAL]
    nodes = 2 if first.nodes > 0 else draw.choice([2, 2, 3])
    workers = draw.choice([1, 1, 1, 2]) if nodes == 2 else 1
    start, faults = nodes, []
    for number in range(draw.randint(1, 3)):
        kind = draw.choice([kind for kind in original if _fits(kind, nodes)]) if number else first
        faults.append(_draw_fault(kind, draw, first=not number))
        nodes += kind.nodes
    sharded = draw.random() < 0.25
    for kind in list(KINDS.values())[ORIGINAL:]:
        its_turn = (seed + zlib.crc32(kind.name.encode())) % LATER_EVERY == 0
        if its_turn and _fits(kind, nodes):
            faults.append(_draw_fault(kind, random.Random(f"{seed} {kind.name}"), first=False))
            nodes += kind.nodes
    return Plan(seed, start, workers, _steps(faults), tuple(faults), sharded)


def _draw_fault(kind: FaultKind, draw: random.Random, first: bool) -> Fault:
    """A fault of that kind: when it strikes, and whom."""
    soon = kind.sudden and not first and draw.random() < 0.4
    seconds = round(draw.uniform(0.1, 2.0), 1) if soon else 0.0
    return Fault(kind.name, draw.randint(3, 8), round(draw.random(), 3), seconds)


def _fits(kind: FaultKind, nodes: int) -> bool:
    """Whether a job of so many nodes can meet it: one has to be left, three are enough."""
    return 1 <= nodes + kind.nodes <= MAX_NODES


def _steps(faults: list[Fault]) -> int:
    """Enough steps for all of it, and some more, in whole epochs."""
    needed = 12 + sum(fault.steps + KINDS[fault.kind].steps for fault in faults)
    return min(EPOCH * -(-needed // EPOCH), MOST_STEPS)
