"""How long a rank's own work takes: products of matrices, attention, what only passes its memory.

A product takes as long as its arithmetic at a share of the card's peak, or as its matrices take
through memory, whichever is longer (a roofline: https://doi.org/10.1145/1498765.1498785). Letters:
t tokens of a microbatch, h the width, f of the perceptron, q and k columns of queries and of keys.
"""

from dataclasses import dataclass
from functools import cached_property

from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup
from rankbook.predict.memory.states import widths
from rankbook.predict.plan.machines import Machines


@dataclass(frozen=True)
class Work:
    """Seconds of a forward pass of one microbatch on one rank, part by part."""

    shape: ModelShape
    setup: Setup
    machines: Machines

    @cached_property
    def layers(self) -> int:
        """Of the stage that takes longest."""
        even, more = divmod(self.shape.layers, self.setup.pp)
        return even + (more > 0 and not self.has_head)

    @cached_property
    def has_head(self) -> bool:
        """Whether the stage that takes longest is the last; layers left over go to the first."""
        left_over = self.shape.layers % self.setup.pp
        return not left_over or self.logits > self.products + self.attention

    @cached_property
    def parameters(self) -> float:
        """Of a rank, as zero 0 to 2 have them: the larger end of the model is with them."""
        ends = (self.shape.embedding, self.shape.head)
        outside = sum(ends) if self.setup.pp == 1 else max(ends)
        layers = -(-self.shape.layers // self.setup.pp)
        return (layers * self.shape.layer + outside) / self.setup.tp

    @cached_property
    def tokens(self) -> int:
        """Of a microbatch of one replica."""
        return self.setup.sequences * self.shape.sequence

    @cached_property
    def width(self) -> int:
        """Bytes of a value."""
        return widths(self.setup.precision).compute

    @cached_property
    def bandwidth(self) -> float:
        """B/s that anything but products reaches."""
        return self.machines.assumed.memory * self.machines.card.bandwidth

    def product(self, columns: float, results: float) -> float:
        """Of the tokens, `columns` wide, with a matrix of columns x results."""
        flops = 2 * self.tokens * columns * results
        values = self.tokens * (columns + results) + columns * results
        rate = self.machines.assumed.matmul * self.machines.card.flops
        return max(flops / rate, self.width * values / self.bandwidth)

    @cached_property
    def products(self) -> float:
        """Of a layer: queries, keys and values, attention's result, the perceptron's matrices."""
        h, t, gates = self.shape.hidden, self.setup.tp, 2 if self.shape.gated else 1
        q, k, f = (
            each / t for each in (self.shape.queries, self.shape.keys, self.shape.feed_forward)
        )
        sizes = ((h, q + 2 * k), (q, h), (h, gates * f), (f, h))
        return sum(self.product(columns, results) for columns, results in sizes)

    @cached_property
    def head(self) -> float:
        """Of the stage that takes longest."""
        return self.logits if self.has_head else 0.0

    @cached_property
    def logits(self) -> float:
        """Over the vocabulary."""
        return self.product(self.shape.hidden, self.shape.vocabulary / self.setup.tp)

    @cached_property
    def attention(self) -> float:
        """Scores and their sums, over half the sequence; eager, over all of it."""
        flops = 2 * self.shape.sequence * self.shape.queries * self.tokens / self.setup.tp
        flops *= 2 if self.setup.eager_attention else 1
        return flops / (self.machines.assumed.attention * self.machines.card.flops)

    @cached_property
    def scores(self) -> float:
        """Eager attention's, through memory: written and read by products, softmax, dropout."""
        if not self.setup.eager_attention:
            return 0.0
        times = 6.5 if self.shape.dropout else 4  # a mask's byte is half a value
        values = times * self.shape.heads * self.shape.sequence * self.tokens / self.setup.tp
        return self.width * values / self.bandwidth

    @cached_property
    def streams(self) -> float:
        """Of a layer: two norms read and write h, two sums 3 h each, activation and rotation.

        Norms and sums are of whole sequences on each rank unless `sequence_parallel`.
        """
        inside = (3 if self.shape.gated else 2) * self.shape.feed_forward
        inside += 2 * (self.shape.queries + self.shape.keys)
        between = (4 + 6) * self.shape.hidden
        between /= self.setup.tp if self.setup.sequence_parallel else 1
        values = between + inside / self.setup.tp
        return self.width * self.tokens * values / self.bandwidth

    @cached_property
    def loss(self) -> float:
        """Forward and backward: float32 logits, their softmax and gradient, read and written."""
        logits = self.has_head * self.tokens * self.shape.vocabulary / self.setup.tp
        return 6 * 4 * logits / self.bandwidth
