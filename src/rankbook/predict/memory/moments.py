"""The moments of a step at which a rank may be fullest, and what it holds at each.

Read off what torch 2.13 does, operation by operation: `rankbook.predict.memory.record_step` on
live ranks.
"""

from collections.abc import Iterator
from typing import NamedTuple

from rankbook.predict.memory.held import Pass, RankBytes
from rankbook.predict.memory.setup import Setup

MOMENTS = ("loss", "backward", "update")


class Moment(NamedTuple):
    """Bytes beside the parameters and the optimizer's state, which are there all the time."""

    gradients: float
    gathered: float
    buffers: float
    activations: float
    logits: float
    workspace: float


class RankMoments(RankBytes):
    """The sizes of one rank; each of `MOMENTS` is a method that yields what it may hold then."""

    def loss(self) -> Iterator[Moment]:
        """All activations; logits, what the loss made of them, and their gradients."""
        if not self.last:
            return
        going, waiting, _ = self.logit
        for one in self.passes():
            logits = (going + (one.flight - 1) * waiting) * self.logits
            there = self.gradients(0.0, 0.0) if one.later else 0.0
            whole = self.gathered(None)
            kept = self.kept(one.flight - 1, self.share.layers) + self.tokens * self.ends
            yield Moment(there, whole, self.exchange(one), kept, logits, 0.0)
            # and at the head: its gradient, that of what it read, and still the logits'
            logits = (2 * self.logit[2] + (one.flight - 1) * waiting) * self.logits
            made = self.gradients(0.0, 0.0, one.later)
            work = self.tokens * self.width.compute * self.shape.hidden
            work += self.new(self.shape.vocabulary) if one.later else 0.0
            yield Moment(made, whole, self.exchange(one), kept, logits, work)

    def backward(self) -> Iterator[Moment]:
        """In a layer's perceptron; at its end; and when all gradients are on their way.

        At the last layer most is kept, at the first one most gradients are there.
        """
        layers, layer, scatters = self.share.layers, self.layer, self.setup.zero >= 2
        for one in self.passes():
            logits = ((one.flight - 1) * self.logit[1] + self.logit[2]) * self.logits
            exchange = self.exchange(one)
            down = self.shape.hidden * self.shape.feed_forward / self.setup.tp / self.share.layer
            new = self.new(max(self.shape.feed_forward, self.shape.queries))
            for behind in {0, min(1, layers - 1), max(0, layers - 2), layers - 1}:
                kept = self.kept(one.flight - 1, layers - behind)
                done = self.kept(one.flight - 1, layers - behind - 1)
                gathered = self.gathered(behind)
                sending = self.sent(behind or one.later, self.share.layer)
                work = self.tokens * (layer.anew + layer.work)
                made = self.gradients(behind, down, one.later)
                yield Moment(made, gathered, sending + exchange, kept, logits, work)
                if self.fsdp and self.setup.reshard:  # it came in a buffer, and is copied out of it
                    done_whole = behind if self.setup.pp > 1 else 0
                    two = self.share.root + (done_whole + 2) * self.share.layer
                    stream, two = self.tokens * layer.stream, self.width.compute * two
                    yield Moment(made, two, sending + exchange, kept, logits, stream)
                if scatters and not self.fsdp:  # the matrix behind, at once
                    buffers = exchange + new * (2 if self.setup.gloo else 1) + new / self.cut_g
                    inner = self.width.compute * self.shape.feed_forward / self.setup.tp
                    first = self.tokens * (layer.anew + layer.stream + inner)
                    yield Moment(made, gathered, buffers, kept, logits, first)
                made = self.gradients(behind, 1.0, one.later)
                tail = self.tokens * layer.tail + (new if one.later else 0.0)
                yield Moment(made, gathered, sending + exchange, done, logits, tail)
                if scatters:
                    made, buffers = self.scattered(behind, one.later, new)
                    freed = self.width.compute * self.share.layer if self.alone else 0.0
                    whole = max(0.0, gathered - freed)  # it is sharded again before
                    stream = self.tokens * layer.stream
                    yield Moment(made, whole, buffers + exchange, done, logits, stream)
            yield from self.at_the_end(one, logits, exchange)

    def update(self) -> Iterator[Moment]:
        """All gradients; and Adam's roots and quotients, of one tensor at a time."""
        each = 4 if self.width.state > 4 else 2
        times = 3 if self.width.state == 12 else 2  # its gradient in 32 bits besides
        work = (
            0.0 if "optimizer" in self.setup.offload else times * each * self.largest / self.cut_s
        )
        made = self.width.gradient * self.share.all / self.cut_g
        yield Moment(made, 0.0, self.exchange(None), 0.0, 0.0, work)

    def passes(self) -> Iterator[Pass]:
        """The first backward pass, and, if there is one, the second."""
        flight = in_flight(self.setup, self.stage)
        yield Pass(flight, False)
        if self.setup.microbatches > 1:
            yield Pass(min(flight, self.setup.microbatches - 1), True)

    def at_the_end(self, one: Pass, logits: float, exchange: float) -> Iterator[Moment]:
        """When the first layer is done: the embedding's gradient, and what the ends scatter."""
        g, c, share, t = self.width.gradient, self.width.compute, self.share, self.setup.tp
        kept = self.kept(one.flight - 1, 0)
        work = self.tokens * self.layer.stream
        made = self.gradients(share.layers, 0.0, True)
        if not self.fsdp:
            extra = self.ids if one.later or self.cut_g > 1 else 0.0
            copy = self.ids / t if self.setup.gloo and self.cut_g > 1 else 0.0
            yield Moment(made + extra, 0.0, copy + exchange, kept, logits, work)
            return
        gathered = self.width.compute * share.root
        if self.setup.pp > 1:
            whole = self.width.compute * share.all
            biggest = max(share.layer, share.root)
            whole -= self.width.compute * biggest  # sharded again, one by one
            unsent = g * biggest + (g * biggest / self.cut_g if self.setup.gloo else 0.0)
            made = g * share.all
            yield Moment(made, max(0.0, whole), unsent + exchange, kept, logits, 0.0)
            return
        made = g * (share.all if one.later else share.layers * share.layer) / self.cut_g
        made += self.ids / t + c * share.last
        work += self.ids if t > 1 else 0.0
        yield Moment(made, gathered, g * share.layer + exchange, kept, logits, work)
        unsent = (2 * g if self.setup.gloo else c + g) * share.root
        made = g * (share.all + (share.root if one.later else 0.0)) / self.cut_g
        yield Moment(made, 0.0, unsent + exchange, kept, logits, 0.0)


def in_flight(setup: Setup, stage: int) -> float:
    """Microbatches whose activations a rank of `stage` has at once; under GPipe, all.

    1F1B: a stage runs ahead of the last one by as many as there are stages behind it. Interleaved,
    it runs ahead by more, each time with a chunk of its layers: Korthikanti et al., section 4.2.3.
    """
    if setup.schedule == "gpipe" and setup.pp > 1:
        return setup.microbatches
    ahead = setup.pp - stage
    if setup.chunks > 1 and setup.pp > 1:
        ahead = (2 * (ahead - 1) + (setup.chunks - 1) * setup.pp + 1) / setup.chunks
    return min(ahead, setup.microbatches)
