"""Every layout of a model on machines: which fit, which are fastest, and the best of each kind."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from rankbook.predict.memory.formula import fullest
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup
from rankbook.predict.memory.terms import Terms
from rankbook.predict.plan.machines import Machines
from rankbook.predict.plan.step import step_time

SEQUENCES = (1, 2, 4, 8, 16)  # of a microbatch
TRIED = ("none", "selective", "layers")  # of checkpointing
OFF = 0.05  # how far a layout's batch may be from the one that was asked for


@dataclass(frozen=True)
class Plan:
    """A layout with what it needs: memory of its fullest rank (of `stage`), time of a step."""

    shape: ModelShape
    machines: Machines
    setup: Setup
    stage: int
    memory: Terms
    time: Terms

    @property
    def fits(self) -> bool:
        """Whether the fullest rank has room."""
        return self.memory.total <= self.machines.usable

    @property
    def batch_tokens(self) -> int:
        """Tokens of a step, of all replicas."""
        setup = self.setup
        return setup.dp * setup.microbatches * setup.sequences * self.shape.sequence

    @property
    def tokens_per_second(self) -> float:
        """Of all GPUs together."""
        return self.batch_tokens / self.time.total

    @property
    def mfu(self) -> float:
        """The model's arithmetic, nothing twice, as a share of the cards' peak."""
        peak = self.machines.gpus * self.machines.card.flops
        return self.shape.flops * self.tokens_per_second / peak

    @property
    def layout(self) -> tuple[int, ...]:
        """Key of a layout: equal for plans that differ in microbatches only."""
        return self.setup.pp, self.setup.dp, self.setup.tp, self.setup.zero, self.setup.shard


@dataclass(frozen=True)
class Plans:
    """All layouts, each once, at its best: first those that fit, the fastest before the others."""

    all: list[Plan]

    @property
    def fitting(self) -> list[Plan]:
        """Those that fit, fastest first."""
        return [plan for plan in self.all if plan.fits]

    @property
    def best(self) -> list[Plan]:
        """The three fastest that fit; empty if none does."""
        return self.fitting[:3]

    @property
    def smallest(self) -> Plan:
        """The one that needs least memory, whether it fits or not."""
        return min(self.all, key=lambda plan: plan.memory.total)

    @property
    def losers(self) -> list[Plan]:
        """The best of each kind that is not among the three: what others would have taken."""
        kinds = {_kind(plan) for plan in self.best}
        found = []
        for plan in self.all:
            if _kind(plan) not in kinds:
                kinds.add(_kind(plan))
                found.append(plan)
        return found


def best_plans(shape: ModelShape, machines: Machines, batch_tokens: float) -> Plans:
    """Every layout of `shape` on `machines`, each with the microbatches that suit it best.

    batch_tokens: of a step; a layout that cannot come within 5 % of it is left out. Mixed precision
    with Adam. Raises ValueError where no layout is left.
    """
    if batch_tokens < shape.sequence:
        raise ValueError(
            f"a batch of {batch_tokens:,.0f} tokens has not one sequence of {shape.sequence:,}; "
            "give a larger batch, or shorter sequences"
        )
    best: dict[tuple[int, ...], Plan] = {}
    for setup in setups(shape, machines, batch_tokens):
        stage, memory = fullest(shape, setup)
        plan = Plan(shape, machines, setup, stage, memory, step_time(shape, setup, machines))
        if plan.layout not in best or _order(plan) < _order(best[plan.layout]):
            best[plan.layout] = plan
    if not best:
        raise ValueError(
            f"no layout on {machines.gpus} GPUs has a batch within 5 % of {batch_tokens:,.0f} "
            f"tokens in sequences of {shape.sequence:,}; give a larger batch, or fewer GPUs"
        )
    return Plans(sorted(best.values(), key=_order))


def setups(shape: ModelShape, machines: Machines, batch_tokens: float) -> Iterator[Setup]:
    """All that can be: sizes that divide, batches that are near, what ZeRO can cut."""
    for pp, dp, tp in _sizes(shape, machines.gpus):
        for zero, shard in _sharings(pp, dp, tp, machines.node):
            for sequences, checkpointing in product(SEQUENCES, TRIED):
                a_round = dp * sequences * shape.sequence
                microbatches = max(1, round(batch_tokens / a_round))
                if abs(microbatches * a_round / batch_tokens - 1) <= OFF:
                    yield Setup(
                        pp,
                        dp,
                        tp,
                        zero,
                        shard,
                        sequences=sequences,
                        microbatches=microbatches,
                        checkpointing=checkpointing,
                        precision="fsdp-bf16" if zero == 3 else "bf16",
                    )


def _sizes(shape: ModelShape, gpus: int) -> Iterator[tuple[int, int, int]]:
    """(pp, dp, tp): tp cuts heads, also of keys and values, and the perceptron evenly."""
    divisors = [n for n in range(1, gpus + 1) if gpus % n == 0]
    kv_heads = shape.kv_heads or shape.heads
    for tp in divisors:
        if kv_heads % tp or shape.feed_forward % tp or shape.sequence % tp:
            continue
        for pp in divisors:
            if gpus % (pp * tp) == 0 and pp <= shape.layers:
                yield pp, gpus // (pp * tp), tp


def _sharings(pp: int, dp: int, tp: int, node: int) -> Iterator[tuple[int, int]]:
    """(zero, shard): with a pipeline, zero 2 would send its gradients for every microbatch."""
    yield 0, 0
    if dp > 1:
        yield from ((1, 0), (3, 0)) if pp > 1 else ((1, 0), (2, 0), (3, 0))
        near = max(1, node // tp)
        if 1 < near < dp and dp % near == 0:
            yield 3, near


def _order(plan: Plan) -> tuple[bool, float]:
    """Those that fit first, by pace; the others by what they lack."""
    return not plan.fits, -plan.tokens_per_second if plan.fits else plan.memory.total


def _kind(plan: Plan) -> tuple[bool | int, ...]:
    setup = plan.setup
    return setup.pp > 1, setup.dp > 1, setup.tp > 1, setup.zero, bool(setup.shard)
