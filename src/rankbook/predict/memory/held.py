"""What a rank of a stage holds of each kind, whenever it is asked: the sums behind the moments."""

from typing import NamedTuple

from rankbook.predict.memory.activations import layer_of, of_logits
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup
from rankbook.predict.memory.states import cuts, share, widths


class Pass(NamedTuple):
    """A microbatch's backward pass: with how many under way, and whether all gradients are there
    from those before it."""

    flight: float
    later: bool


class RankBytes:
    """Bytes of each kind that a rank of `stage` holds: inputs of the peak formula."""

    def __init__(self, shape: ModelShape, setup: Setup, stage: int):
        if setup.precision == "fsdp-bf16" and setup.zero < 3:
            raise ValueError(
                "precision 'fsdp-bf16' is FSDP2's own; use zero=3 (with shard=1 if each replica "
                "shall keep a whole copy), or another precision"
            )
        self.shape, self.setup, self.stage = shape, setup, stage
        self.width, self.layer = widths(setup.precision), layer_of(shape, setup)
        self.share = share(shape, setup, stage)
        self.n = setup.sharing if setup.zero else 1
        self.tokens = setup.sequences * shape.sequence
        self.last = stage == setup.pp - 1
        self.logit = of_logits(setup) if self.last else (0, 0, 0)
        self.logits = self.tokens * shape.vocabulary / setup.tp
        p, (cut_p, self.cut_g, cut_s) = self.share.all, cuts(setup.zero, self.n)
        self.parameters = self.width.parameter * p / cut_p
        self.cut_s = cut_s
        self.state = 0.0 if "optimizer" in setup.offload else self.width.state * p / cut_s
        self.fsdp = setup.zero == 3 and (self.n > 1 or setup.precision == "fsdp-bf16")
        self.alone = self.fsdp and setup.pp == 1
        # of an embedding that tensor parallelism cuts by rows, torch makes the whole gradient
        ids = shape.vocabulary * shape.hidden if stage == 0 else 0
        self.ids = self.width.compute * ids
        self.extra = 0.0 if self.fsdp or setup.zero == 2 else self.ids * (1 - 1 / setup.tp)

    @property
    def ends(self) -> float:
        """Bytes of a token that lie behind the last layer: what goes on to the next stage, or what
        the last norm reads, and what the head does."""
        offloaded = "activations" in self.setup.offload
        if not self.last:
            return self.layer.stream
        whole = self.width.compute * self.shape.hidden
        norm = self.layer.stream if self.setup.regather else whole
        return 0.0 if offloaded else self.layer.stream + norm

    @property
    def largest(self) -> float:
        """Parameters of the largest tensor that a rank computes with."""
        shape, t = self.shape, self.setup.tp
        inner = shape.hidden * max(shape.feed_forward, shape.queries) / t
        ends = shape.vocabulary * shape.hidden / t
        return max(inner, ends if self.stage == 0 or self.last else 0.0)

    def kept(self, others: float, layers: int) -> float:
        """Bytes that `others` whole microbatches have left, and the one at work of `layers`."""
        mine = layers * self.layer.layer + (0.0 if self.last else self.layer.stream)
        whole = self.share.layers * self.layer.layer + self.ends
        return self.tokens * (others * whole + mine)

    def gathered(self, behind: int | None) -> float:
        """Parameters that FSDP2 has gathered: the ends' always, layers' by what it shards again.

        behind: layers whose backward pass is done; None at the loss. Under torch's pipelining they
        stay whole until the next forward pass.
        """
        if not self.fsdp:
            return 0.0
        layers = self.share.layers
        if self.setup.pp > 1:
            whole = 0 if behind is None else min(layers, behind + 2)
            whole = whole if self.setup.reshard else layers
        elif self.setup.reshard:
            whole = 0 if behind is None else min(2, layers - behind)
        else:
            whole = layers - (behind or 0)
        return self.width.compute * (self.share.root + whole * self.share.layer)

    def gradients(self, behind: float, inside: float, later: bool | None = None) -> float:
        """Bytes of gradients: of the head, of `behind` layers, and of as much of the one at work.

        later: all are there from a microbatch before; None: and no new ones.
        """
        g, c, share = self.width.gradient, self.width.compute, self.share
        everything = g * share.all / self.cut_g + self.extra
        fresh = share.last + (behind + inside) * share.layer
        if not self.fsdp:
            return everything if later or later is None else g * fresh / self.cut_g
        if self.setup.pp > 1:  # torch's pipelining scatters once, behind the last microbatch
            return g * share.all if later or later is None else g * fresh
        if later is None:
            return everything
        new = c * (share.last + inside * share.layer)
        return new + (everything if later else g * behind * share.layer / self.cut_g)

    def sent(self, before: bool | int, parameters: float) -> float:
        """What was scattered from last, and stays until the next is: of FSDP2, a layer."""
        return self.width.gradient * parameters if self.alone and before else 0.0

    def new(self, columns: int) -> float:
        """The new gradient of a matrix of so many columns, before it is added to the old one."""
        whole = self.width.compute * self.shape.hidden * columns / self.setup.tp
        return 0.0 if self.fsdp else whole

    def scattered(self, behind: int, later: bool, one: float) -> tuple[float, float]:
        """Gradients and buffers while what a layer has made is scattered."""
        g, c, share = self.width.gradient, self.width.compute, self.share
        if self.alone:
            made = self.gradients(behind, 0.0, later) + g * share.layer / self.cut_g
            unsent = 2 * g if self.setup.gloo else c + g
            return made, unsent * share.layer
        made = self.gradients(behind, 1.0, later)
        return made, one * (2 if self.setup.gloo else 1)

    def exchange(self, one: Pass | None) -> float:
        """What torch's pipelining receives into, for each microbatch, beyond what is counted as its
        input, or as the gradient at work; and what is on its way out.

        1F1B holds on to the last activation that was sent ahead, and to the gradient sent last.
        """
        setup, times = self.setup, self.setup.microbatches
        if setup.pp == 1:
            return 0.0
        flight = one.flight if one else 0
        streams = 0.0
        if not setup.exchanged_ahead:
            return (1 + (self.stage > 0) * (not self.last)) * self.tokens * self.layer.stream
        if self.stage:
            streams += max(0, times - flight)
            streams += 1 if one and one.later and setup.schedule == "1f1b" else 0
        if not self.last:
            streams += times - (1 if one else 0)
            streams += 1 if one and flight > 1 and setup.schedule == "1f1b" else 0
        return streams * self.tokens * self.layer.stream
