"""What shall go wrong in a run, drawn from a seed: the same seed gives the same plan."""

import random
from dataclasses import dataclass, field

MAX_NODES = 3
EPOCH = 5  # steps of an epoch: 50 samples in batches of 12, the last of 2
MOST_STEPS = 100
TAKES = {"node_joins": 25, "disk_full": 4, "newest_damaged": 4}  # steps that are done meanwhile
NODES_AFTER = {"agent_killed": -1, "node_killed": -1, "node_leaves": -1, "node_joins": 1}
KINDS = (
    "worker_killed",
    "worker_terminated",
    "worker_paused_briefly",
    "worker_paused_long",
    "agent_killed",
    "node_killed",
    "node_joins",
    "node_leaves",
    "store_host_killed",
    "everything_killed",
    "disk_full",
    "newest_damaged",
)
# These may strike while the job still recovers from the fault before them.
SUDDEN = ("worker_killed", "worker_terminated", "agent_killed", "node_killed", "node_joins")


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    kind: one of `KINDS`. steps: it strikes when so many steps are done since the job recovered
    from the fault before it. seconds: instead, so long after the fault before it, recovered or
    not; 0 if `steps` counts. draw: in [0, 1), chooses the victim, and one of a kind's variants.
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
        """The kinds of faults in it."""
        return {fault.kind for fault in self.faults}


def draw_plan(seed: int) -> Plan:
    """The plan of `seed`: one to three faults, the first of kind ``seed % len(KINDS)``.

    So any dozen seeds in a row have every kind, and many seeds have each equally often.
    """
    draw = random.Random(seed)
    first = KINDS[seed % len(KINDS)]
    nodes = 2 if first == "node_joins" else draw.choice([2, 2, 3])
    workers = draw.choice([1, 1, 1, 2]) if nodes == 2 else 1
    start, faults = nodes, []
    for number in range(draw.randint(1, 3)):
        kind = draw.choice(_possible(nodes)) if number else first
        sudden = number > 0 and kind in SUDDEN and draw.random() < 0.4
        seconds = round(draw.uniform(0.1, 2.0), 1) if sudden else 0.0
        faults.append(Fault(kind, draw.randint(3, 8), round(draw.random(), 3), seconds))
        nodes += NODES_AFTER.get(kind, 0)
    sharded = draw.random() < 0.25
    return Plan(seed, start, workers, _steps(faults), tuple(faults), sharded)


def _possible(nodes: int) -> list[str]:
    """The kinds that a job of so many nodes can meet: one has to be left, three are enough."""
    return [kind for kind in KINDS if 1 <= nodes + NODES_AFTER.get(kind, 0) <= MAX_NODES]


def _steps(faults: list[Fault]) -> int:
    """Enough steps for all of it, and some more, in whole epochs."""
    needed = 12 + sum(fault.steps + TAKES.get(fault.kind, 0) for fault in faults)
    return min(EPOCH * -(-needed // EPOCH), MOST_STEPS)
