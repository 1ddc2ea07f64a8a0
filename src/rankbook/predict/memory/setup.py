"""How ranks hold and train a model: what the memory of a rank, and a step's time, depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankbook.parallel.mesh.layout import Layout

CHECKPOINTING = {
    "none": "everything that backward needs is kept",
    "attention": "attention's core alone is computed anew (Megatron-LM's selective)",
    "selective": "the matrices' results are kept; norms, activations, attention are computed anew",
    "layers": "each layer keeps its input, and is computed anew",
}
PRECISIONS = {
    "float32": "everything in 32 bits",
    "bf16": "bf16 parameters, gradients and activations; a float32 copy and Adam's moments",
    "bf16-fp32-grads": "as bf16, but gradients are added up in 32 bits (Megatron-LM)",
    "fsdp-bf16": "float32 parameters, gradients and moments; gathered and computed in bf16",
    "bf16-states": "everything in 16 bits, Adam's moments too",
}
OFFLOADED = {
    "activations": "what the forward pass leaves waits in the host's memory",
    "optimizer": "the optimizer's state is in the host's memory, and the update runs there",
}


@dataclass(frozen=True)
class Setup:
    """A mesh of `pp` stages x `dp` replicas x `tp` parts of each layer, and how it trains.

    zero: 0, replicas keep everything; 1, the optimizer's state is cut among them; 2, gradients as
    well; 3, parameters as well (FSDP2). shard: how many replicas share one copy (0: all of them).
    reshard: with zero 3, a layer is sharded again after its forward pass. sequences: of one
    microbatch of one replica. microbatches: of one step of one replica. chunks: of layers on each
    stage's ranks, which take turns (interleaved 1F1B). offload: of `OFFLOADED`.
    regather: with tp, backward gathers the norms' results anew, as Megatron-LM does it; torch's
    DTensor keeps them whole. eager_attention: all of attention's weights are made, and kept. gloo:
    collectives are gloo's, as on a CPU, which copies what it scatters.
    exchanged_ahead: a stage has buffers for what it is sent of all microbatches from the start, as
    torch's pipelining; otherwise of one. sequence_parallel: with tp, a rank has a part of each
    sequence between layers, and not the whole. Raises ValueError for what cannot be.
    """

    pp: int = 1
    dp: int = 1
    tp: int = 1
    zero: int = 0
    shard: int = 0
    reshard: bool = True
    sequences: int = 1
    microbatches: int = 1
    schedule: str = "1f1b"
    chunks: int = 1
    checkpointing: str = "none"
    precision: str = "bf16"
    offload: tuple[str, ...] = ()
    regather: bool = False
    eager_attention: bool = False
    gloo: bool = False
    exchanged_ahead: bool = True
    sequence_parallel: bool = True

    def __post_init__(self):
        for name in ("pp", "dp", "tp", "sequences", "microbatches", "chunks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.zero not in range(4):
            raise ValueError(f"ZeRO has the stages 0 to 3, not {self.zero}")
        if self.shard < 0 or self.dp % self.sharing:
            raise ValueError(
                f"groups of {self.shard} that share one copy do not divide dp={self.dp}; "
                "use a divisor of it"
            )
        _one_of("checkpointing", self.checkpointing, CHECKPOINTING)
        _one_of("precision", self.precision, PRECISIONS)
        for name in self.offload:
            _one_of("offload", name, OFFLOADED)

    @property
    def ranks(self) -> int:
        """How many ranks it takes."""
        return self.pp * self.dp * self.tp

    @property
    def sharing(self) -> int:
        """How many replicas share one copy of what `zero` cuts."""
        return self.shard or self.dp

    @property
    def layout(self) -> Layout:
        """The mesh as `rankbook.parallel.mesh` builds it; FSDP2 is zero 3, all else is whole."""
        from rankbook.parallel.mesh.layout import Layout  # torch, which a plan does without

        return Layout(self.pp, self.dp, self.tp, self.sharing if self.zero == 3 else 1)


def _one_of(what: str, given: str, known: dict[str, str]) -> None:
    if given not in known:
        raise ValueError(f"{what} {given!r} is unknown; use one of {', '.join(known)}")
