"""What a rank has at its fullest moment, by formula, and what a step sends: which strategy fits?

In 32 bits with Adam (but for "deepspeed2, bf16"), in bytes of one rank, without activations: those
are the batch's, and the same for every strategy. Sources: https://arxiv.org/abs/1910.02054,
sections 3, 5 and 7; https://arxiv.org/abs/2101.06840, section 4, for what goes over PCIe.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from torch import nn

from rankbook.speed.strategies.memory import Bytes, formula
from rankbook.speed.strategies.zero1 import dealt


@dataclass(frozen=True)
class ParameterCounts:
    """How many parameters any model has: in all, in one layer, in the largest tensor.

    sizes: of each tensor. layers: how many; 0 stands for as many as the total has room for.
    """

    total: int
    layer: int
    largest: int
    sizes: tuple[int, ...] = ()
    layers: int = 0

    @classmethod
    def of(cls, model: nn.Module, layers: str = "distilbert.transformer.layer") -> Self:
        """Of a model with a list of equal `layers`."""
        sizes = tuple(p.numel() for p in model.parameters())
        children = list(model.get_submodule(layers).children())
        layer = sum(p.numel() for p in children[0].parameters())
        return cls(sum(sizes), layer, max(sizes), sizes, len(children))

    @property
    def root(self) -> int:
        """Parameters that are in no layer: embeddings and the head."""
        return self.total - self.layer * (self.layers or self.total // self.layer)

    def share(self, ranks: int) -> float:
        """The most that one of `ranks` gets if whole tensors are dealt out, largest first."""
        return max(dealt(self.sizes or [self.total], ranks))


def ddp(counts: ParameterCounts, ranks: int, bucket: int, as_view: bool = True) -> Bytes:
    """All of it; and the largest gradient twice, when it has come and is copied into its bucket.

    Without `as_view` all gradients are there twice, and none waits to be copied.
    """
    if not as_view:
        return _kept("ddp", counts, ranks, buffers=4 * counts.total)
    return _kept("ddp", counts, ranks, gradients=4 * counts.largest)


def zero1(counts: ParameterCounts, ranks: int, bucket: int) -> Bytes:
    """As DDP, but the state is that of the tensors that were dealt to the fullest rank."""
    return replace(ddp(counts, ranks, bucket), state=8 * counts.share(ranks))


def fsdp2(counts: ParameterCounts, ranks: int, bucket: int, reshard: bool = True) -> Bytes:
    """Shards, and what is gathered: what is in no layer, one layer, and the one fetched ahead.

    At the fullest moment the last layers' gradients are shards already, and one layer's are whole,
    twice: as autograd made them, and in the buffer from which they are sent. (Once the former are
    gone, gloo has a copy of the buffer, so with gloo it stays at that.) With `reshard` False all is
    gathered when the forward pass ends, and two layers lie in the buffers they came in.
    """
    p, layer, root = counts.total, counts.layer, counts.root
    kept = _kept("fsdp2", counts, ranks)
    if not reshard:
        return replace(kept, gradients=0, gathered=4 * p + 8 * layer)
    done = max(0, p - root - 2 * layer)
    gradients = 4 * done / ranks + 4 * layer  # or gloo's copy of the buffer
    gathered = 4 * (root + 2 * layer)
    return replace(kept, gradients=gradients, buffers=4 * layer, gathered=gathered)


def deepspeed1(counts: ParameterCounts, ranks: int, bucket: int) -> Bytes:
    """All gradients whole until the last has come, and this rank's averaged ones besides."""
    whole, buffers = 4 * counts.total, bucket + 4 * counts.largest
    return _kept("deepspeed1", counts, ranks, gradients=whole, buffers=buffers)


def deepspeed2(counts: ParameterCounts, ranks: int, bucket: int) -> Bytes:
    """This rank's averaged gradients; one bucket that fills, and the tensor that was too large."""
    buffers = bucket + 4 * counts.largest
    return _kept("deepspeed2", counts, ranks, gradients=bucket, buffers=buffers)


def deepspeed2_bf16(counts: ParameterCounts, ranks: int, bucket: int) -> Bytes:
    """As `deepspeed2`, with parameters, gradients and bucket at 2 bytes; the state stays."""
    full = deepspeed2(counts, ranks, bucket)
    halves = (full.parameters / 2, full.gradients / 2, full.state, full.buffers / 2)
    return Bytes(*halves)


def deepspeed3(counts: ParameterCounts, ranks: int, bucket: int) -> Bytes:
    """Shards; the largest tensor gathered, its gradient, and that again on its way.

    For `live` 0: nothing is fetched ahead, and nothing stays.
    """
    largest = 4 * counts.largest
    more = {"gradients": largest, "buffers": bucket + largest, "gathered": largest}
    return _kept("deepspeed3", counts, ranks, **more)


def _kept(strategy: str, counts: ParameterCounts, ranks: int, **more: float) -> Bytes:
    """What stays from step to step, by the formula of `memory`, and `more` of some parts."""
    kept = formula(strategy, counts.total, ranks)
    return replace(kept, **{part: getattr(kept, part) + value for part, value in more.items()})


PEAKS: dict[str, Callable[..., Bytes]] = {
    "alone": lambda counts, ranks, bucket: _kept("alone", counts, ranks),
    "ddp": ddp,
    "ddp, no view": lambda *given: ddp(*given, as_view=False),
    "zero1": zero1,
    "deepspeed1": deepspeed1,
    "deepspeed2": deepspeed2,
    "deepspeed2, bf16": deepspeed2_bf16,
    "deepspeed3": deepspeed3,
    "fsdp2": fsdp2,
    "fsdp2, kept": lambda *given: fsdp2(*given, reshard=False),
}


def peak(way: str, counts: ParameterCounts, ranks: int, bucket_mb: float = 25) -> Bytes:
    """The fullest moment of a rank under one of `PEAKS`, without activations. Raises ValueError."""
    if way not in PEAKS:
        raise ValueError(f"way {way!r} has no formula; use {', '.join(PEAKS)}")
    return PEAKS[way](counts, ranks, min(bucket_mb * 2**20, 4 * counts.total))
