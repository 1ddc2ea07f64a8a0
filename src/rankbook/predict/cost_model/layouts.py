"""How long a training step takes on a mesh of ranks: computed from sizes and a few measured costs.

Work is measured in one process; messages cost alpha + beta x bytes, each step of a ring one message
(Thakur, Rabenseifner and Gropp, section 3, https://doi.org/10.1177/1094342005051521); what stages
wait for each other comes from the simulator. Nothing is hidden behind anything else.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rankbook.parallel.pipeline.plan import PipelinePlan
from rankbook.parallel.pipeline.simulator import simulate


class Mesh(Protocol):
    """Sizes of the dimensions; `rankbook.parallel.mesh.Layout` has them."""

    pp: int
    dp: int
    tp: int
    shard: int


class Call(Protocol):
    """A collective or message of a rank, as `predicted_traffic` gives them; ring: bytes."""

    operation: str
    ranks: int
    ring: float


@dataclass(frozen=True)
class StepCosts:
    """Of a machine and a model, in seconds.

    row: forward and backward of one row by one core. a_pass: what such a pass takes whatever its
    rows, in Python and torch; tensor_pass: the same where layers are DTensors. update: clipping and
    the optimizer's step, of the whole model. lines: of each operation alpha and beta, what one of
    its messages takes and each byte of it; a library need not make all of them as rings, so each
    has its own. cores: how many there are.
    """

    row: float
    a_pass: float
    tensor_pass: float
    update: float
    cores: int
    lines: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class PredictedStep:
    """Seconds of a step: the work with what stages wait, the update, and the messages."""

    work: float
    update: float
    messages: float

    @property
    def total(self) -> float:
        """Seconds of the whole step."""
        return self.work + self.update + self.messages


def predict_step(
    mesh: Mesh,
    rows: int,
    microbatches: int,
    calls: Iterable[Call],
    costs: StepCosts,
    schedule: str = "1f1b",
) -> PredictedStep:
    """The step of a batch of `rows`, which each replica cuts into `microbatches`.

    calls: all that the busiest rank sends, `predicted_traffic(...).messages`. Ranks beyond the
    cores share them: then the work of all is what counts, unless stages wait for longer. Raises
    ValueError for a mesh with cp or ep, whose work no measurement has been held against.
    """
    for name in ("cp", "ep"):
        if (size := getattr(mesh, name, 1)) > 1:
            raise ValueError(f"pp, dp and tp can be predicted; {name}={size} has to be measured")
    ranks = mesh.pp * mesh.dp * mesh.tp
    a_pass = costs.tensor_pass if mesh.tp > 1 else costs.a_pass
    of_rank = microbatches * a_pass / mesh.pp + costs.row * rows / ranks
    idle = simulate(PipelinePlan(schedule, mesh.pp, microbatches)).idle_share
    work = max(of_rank / (1 - idle), of_rank * ranks / costs.cores)
    copies = mesh.dp // mesh.shard  # replicas that do the same update
    update = costs.update * copies / min(ranks, costs.cores)
    return PredictedStep(work, update, sum(call_seconds(call, costs) for call in calls))


def call_seconds(call: Call, costs: StepCosts) -> float:
    """Seconds of one call: its steps, and its bytes round the ring. A recv ends with its send."""
    if call.operation == "recv":
        return 0.0
    alpha, beta = costs.lines[call.operation]
    return message_steps(call.operation, call.ranks) * alpha + call.ring * beta


def message_steps(operation: str, n: int) -> int:
    """How many messages follow each other in a collective of `n` ranks that goes round a ring.

    A recv is counted with its send. Raises ValueError for another operation.
    """
    once = ("all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "barrier")
    steps = {"all_reduce": 2 * (n - 1), "send": 1, "recv": 0, "gather": 1, "scatter": 1}
    steps |= dict.fromkeys(once, n - 1)
    if operation not in steps:
        raise ValueError(f"message_steps: {operation!r} is unknown; use one of {', '.join(steps)}")
    return steps[operation]


def fit_message(operation: str, n: int, alpha: float, beta: float) -> tuple[float, float]:
    """Of a message, from the line of all_reduce, all_gather or reduce_scatter: (alpha, beta).

    alpha, beta: in seconds, and seconds a byte of the whole tensor, over `n` ranks; as of
    `rankbook.comm.all_reduce.fit_alpha_beta`. In a step of the ring a rank sends an n-th of it.
    """
    steps = message_steps(operation, n)
    return alpha / steps, beta * n / steps


def fit_passes(few: tuple[int, float], many: tuple[int, float]) -> tuple[float, float]:
    """(seconds of a pass, seconds of a row) from two (rows, seconds); neither is negative."""
    row = max(0.0, (many[1] - few[1]) / (many[0] - few[0]))
    return max(0.0, few[1] - row * few[0]), row
