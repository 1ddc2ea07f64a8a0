"""How long a training step takes on machines that nobody has started yet: a stated cost model.

Products at a share of the card's peak, everything else at a share of its memory's bandwidth,
collectives as rings of alpha + beta x bytes, idle time of stages as the book's simulator has it.
The letters in the formulas: L layers here, t tokens of a microbatch, m microbatches, h the width,
w bytes of a value, P parameters, n ranks. Sources: work, https://arxiv.org/abs/2104.04473; messages
of tensor parallelism, https://arxiv.org/abs/2205.05198, section 4.2; of ZeRO,
https://arxiv.org/abs/1910.02054, section 7.
"""

from dataclasses import dataclass
from functools import cached_property

from rankbook.comm.ring_model import half_ring
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup
from rankbook.predict.memory.terms import Term, Terms
from rankbook.predict.plan.machines import Machines
from rankbook.predict.plan.replicas import Replicas
from rankbook.predict.plan.work import Work

# bytes that Adam reads and writes for a parameter: gradient, copy, two moments, the value
UPDATED = {"float32": 28, "bf16": 28, "fsdp-bf16": 28, "bf16-states": 14, "bf16-fp32-grads": 30}


def step_time(shape: ModelShape, setup: Setup, machines: Machines) -> Terms:
    """Seconds of a step of the slowest stage's rank, in terms that add up; none overlap.

    compute: forward and backward. recompute: what checkpointing does anew. elementwise: norms,
    residuals, activations, the loss. tensor, pipeline: messages of these dimensions. replicas:
    messages of data parallelism that no backward pass hides. bubble: waiting for other stages.
    update: the optimizer.
    """
    rank = _Rank(shape, setup, machines)
    terms = Terms(
        compute=rank.compute(),
        recompute=rank.recompute(),
        elementwise=rank.elementwise(),
        tensor=rank.tensor(),
    )
    terms["bubble"] = rank.bubble(terms.total)
    terms["pipeline"] = rank.pipeline()
    hidden_behind = sum(terms[name].value for name in ("compute", "recompute", "elementwise"))
    terms["replicas"] = Replicas(rank.work).exposed(hidden_behind)
    terms["update"] = rank.update()
    return terms


def idle_share(pp: int, microbatches: int) -> float:
    """The share of a step in which equal stages wait, under GPipe and 1F1B.

    The simulator plays the same (test_step.py); it would load torch, in seconds.
    Source: https://arxiv.org/abs/1811.06965, section 2.3.
    """
    return (pp - 1) / (microbatches + pp - 1)


@dataclass(frozen=True)
class _Rank:
    """The work and the messages of a rank of the slowest stage."""

    shape: ModelShape
    setup: Setup
    machines: Machines

    @cached_property
    def work(self) -> Work:
        return Work(self.shape, self.setup, self.machines)

    @cached_property
    def sent(self) -> int:
        """Bytes of a microbatch's values between layers."""
        return self.work.tokens * self.shape.hidden * self.work.width

    def compute(self) -> Term:
        work, m = self.work, self.setup.microbatches
        seconds = 3 * m * (work.layers * (work.products + work.attention) + work.head)
        return Term(seconds, "3 m (L (products + attention) + head), by FLOP/s or by B/s")

    def recompute(self) -> Term:
        work = self.work
        layer = work.products + work.attention
        again = {"none": 0.0, "layers": layer}.get(self.setup.checkpointing, work.attention)
        seconds = self.setup.microbatches * work.layers * again
        return Term(seconds, f"m L forward again ({self.setup.checkpointing})")

    def elementwise(self) -> Term:
        """Forward, backward, which is twice that, and what is made anew."""
        work, anew = self.work, self.setup.checkpointing
        passes = 4 if anew in ("selective", "layers") else 3
        seconds = passes * work.streams + (3 if anew == "none" else 4) * work.scores
        seconds = self.setup.microbatches * (work.layers * seconds + work.loss)
        said = " + eager scores" if work.scores else ""
        return Term(seconds, f"m t ({passes} L w values{said} + loss) / (tp bandwidth)")

    def tensor(self) -> Term:
        n = self.setup.tp
        one = half_ring(n, self.sent, self.machines.link(n))
        # selective gathers the norms' results anew, and keeps what was scattered
        each = {"selective": 10, "layers": 12}.get(self.setup.checkpointing, 8)
        calls = self.setup.microbatches * (each * self.work.layers + 4)
        return Term(calls * one, f"m ({each} L + 4) rings of t h w over tp={n}")

    def pipeline(self) -> Term:
        """Of the first microbatch, there and back; of each, where 1F1B waits for what it is sent.

        GPipe, and fewer microbatches than stages, have other work meanwhile.
        """
        if self.setup.pp == 1:
            return Term(0.0, "no other stage")
        nbytes = self.sent / self.setup.tp
        hops = self.machines.hops(self.setup.pp, self.setup.dp * self.setup.tp)
        each = [link.alpha + nbytes * link.beta for link in hops]
        m = self.setup.microbatches
        waits = self.setup.schedule == "1f1b" and m >= self.setup.pp
        steady = m * self.setup.chunks if waits else 0
        said = f"2 ({len(each)} hops" + (f" + {steady} over the slowest)" if steady else ")")
        return Term(2 * (sum(each) + steady * max(each)), f"{said} of t h w / tp")

    def bubble(self, work: float) -> Term:
        chunks = self.setup.chunks
        idle = idle_share(self.setup.pp, self.setup.microbatches * chunks)
        named = f"{self.setup.schedule}, pp={self.setup.pp}, m={self.setup.microbatches}"
        named += f", {chunks} chunks" if chunks > 1 else ""
        return Term(
            work * idle / (1 - idle), f"work x idle / (1 - idle), idle {idle:.3f} ({named})"
        )

    def update(self) -> Term:
        cut = self.setup.sharing if self.setup.zero else 1
        nbytes = UPDATED[self.setup.precision] * self.work.parameters / cut
        rate = self.machines.assumed.memory * self.machines.card.bandwidth
        what = f"{UPDATED[self.setup.precision]} P / (pp tp{' dp' if cut > 1 else ''}) / bandwidth"
        return Term(nbytes / rate, what)
