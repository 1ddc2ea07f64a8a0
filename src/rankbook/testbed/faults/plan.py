"""What shall go wrong in a run, drawn from a seed: the same seed gives the same plan."""

import random
import zlib
from dataclasses import dataclass, field, replace

from rankbook.testbed.faults.hard_kinds import KINDS
from rankbook.testbed.faults.kind import FaultKind

MAX_NODES = 3
EPOCH = 5  # steps of an epoch: 50 samples in batches of 12, the last of 2
MOST_STEPS = 100
# Recorded results name seeds: how many kinds those up to 199 draw from, and those from there on.
ORIGINAL, RAISED, RAISED_FROM = 12, 22, 200
WORKERS = {2: [1, 2, 2], 3: [1, 1, 2]}  # by the nodes, from 200 on
LATER_EVERY = 6  # seeds from 200 on of which one has a given kind that joins after these


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
    """The plan of `seed`: the same for ever, whatever kinds of faults join.

    Up to 199 it has one to three faults of the original dozen kinds, from 200 on of all of
    `RAISED`. The first fault goes by the seed: any row of seeds as long as their list has them
    all, or from 200 on all that are new there. A kind that joins after that draws from a stream of
    its own and comes last, in every sixth seed from 200 on in which the number of nodes permits it.
    """
    draw = random.Random(seed)
    if seed < RAISED_FROM:
        return _draw(seed, draw, list(KINDS.values())[:ORIGINAL], ORIGINAL, {2: [1, 1, 1, 2]})
    kinds = list(KINDS.values())[:RAISED]
    plan = _draw(seed, draw, kinds[ORIGINAL:] + kinds[:ORIGINAL], RAISED - ORIGINAL, WORKERS)
    faults, nodes = list(plan.faults), plan.nodes + sum(KINDS[f.kind].nodes for f in plan.faults)
    for kind in list(KINDS.values())[RAISED:]:
        its_turn = (seed + zlib.crc32(kind.name.encode())) % LATER_EVERY == 0
        if its_turn and _fits(kind, nodes):
            faults.append(_draw_fault(kind, random.Random(f"{seed} {kind.name}"), first=False))
            nodes += kind.nodes
    return replace(plan, faults=tuple(faults), steps=_steps(faults))


def _draw(
    seed: int, draw: random.Random, kinds: list[FaultKind], firsts: int, workers_of: dict
) -> Plan:
    """One to three faults of `kinds`; the first is one of the first so many of these.

    workers_of: by the number of nodes, what to draw their workers from; one each if it is not said.
    """
    first = kinds[seed % firsts]
    nodes = 2 if first.nodes > 0 or first.hosts else draw.choice([2, 2, 3])
    workers = draw.choice(workers_of[nodes]) if nodes in workers_of else 1
    start, faults = nodes, []
    for number in range(draw.randint(1, 3)):
        kind = draw.choice([kind for kind in kinds if _fits(kind, nodes)]) if number else first
        faults.append(_draw_fault(kind, draw, first=not number))
        nodes += kind.nodes
    sharded = draw.random() < 0.25
    return Plan(seed, start, workers, _steps(faults), tuple(faults), sharded)


def _draw_fault(kind: FaultKind, draw: random.Random, first: bool) -> Fault:
    """A fault of that kind: when it strikes, and whom."""
    soon = kind.sudden and not first and draw.random() < 0.4
    seconds = round(draw.uniform(0.1, 2.0), 1) if soon else 0.0
    return Fault(kind.name, draw.randint(3, 8), round(draw.random(), 3), seconds)


def _fits(kind: FaultKind, nodes: int) -> bool:
    """Whether a job of so many nodes can meet it: one has to be left, three are enough."""
    return 1 <= nodes + kind.nodes <= MAX_NODES and (nodes == 2 or not kind.hosts)


def _steps(faults: list[Fault]) -> int:
    """Enough steps for all of it, and some more, in whole epochs."""
    needed = 12 + sum(fault.steps + KINDS[fault.kind].steps for fault in faults)
    return min(EPOCH * -(-needed // EPOCH), MOST_STEPS)
