"""What a rank has at its fullest moment, by formula, and what a step sends: which strategy fits?

In 32 bits with Adam (but for "deepspeed2, bf16"), in bytes of one rank, without activations: those
are the batch's, and the same for every strategy. Sources: https://arxiv.org/abs/1910.02054,
sections 3, 5 and 7; https://arxiv.org/abs/2101.06840, section 4, for what goes over PCIe.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from torch import nn

from rankbook.speed.strategies.memory import Bytes
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
    p = counts.total
    on_its_way, twice = (4 * counts.largest, 0) if as_view else (0, 4 * p)
    return Bytes(4 * p, 4 * p + on_its_way, 8 * p, buffers=twice)


def zero1(counts: ParameterCounts, ranks: int, bucket: int) -> Bytes:
    """As DDP, but the state is that of the tensors that were dealt to the fullest rank."""
    found = ddp(counts, ranks, bucket)
    return Bytes(found.parameters, found.gradients, 8 * counts.share(ranks))


def fsdp2(counts: ParameterCounts, ranks: int, bucket: int, reshard: bool = True) -> Bytes:
    """Shards, and what is gathered: what is in no layer, one layer, and the one fetched ahead.

    At the fullest moment the last layers' gradients are shards already, and one layer's are whole,
    twice: as autograd made them, and in the buffer from which they are sent. (Once the former are
    gone, gloo has a copy of the buffer, so with gloo it stays at that.) With `reshard` False all is
    gathered when the forward pass ends, and two layers lie in the buffers they came in.
    """
    p, n, layer, root = counts.total, ranks, counts.layer, counts.root
    if not reshard:
        return Bytes(4 * p / n, 0, 8 * p / n, gathered=4 * p + 8 * layer)
    done = max(0, p - root - 2 * layer)
    gradients = 4 * done / n + 4 * layer  # or gloo's copy of the buffer
    return Bytes(4 * p / n, gradients, 8 * p / n, 4 * layer, 4 * (root + 2 * layer))


def deepspeed1(counts: ParameterCounts, ranks: int, bucket: int) -> Bytes:
    """All gradients whole until the last has come, and this rank's averaged ones besides."""
    p, n = counts.total, ranks
    return Bytes(4 * p, 4 * p + 4 * p / n, 12 * p / n, buffers=bucket + 4 * counts.largest)


def deepspeed2(counts: ParameterCounts, ranks: int, bucket: int) -> Bytes:
    """This rank's averaged gradients; one bucket that fills, and the tensor that was too large."""
    p, n = counts.total, ranks
    return Bytes(4 * p, 4 * p / n + bucket, 12 * p / n, buffers=bucket + 4 * counts.largest)


def deepspeed2_bf16(counts: ParameterCounts, ranks: int, bucket: int) -> Bytes:
    """As `deepspeed2`, with parameters, gradients and bucket at 2 bytes; the state stays."""
    full = deepspeed2(counts, ranks, bucket)
    halves = (full.parameters / 2, full.gradients / 2, full.state, full.buffers / 2)
    return Bytes(*halves)


def deepspeed3(counts: ParameterCounts, ranks: int, bucket: int) -> Bytes:
    """Shards; the largest tensor gathered, its gradient, and that again on its way.

    For `live` 0: nothing is fetched ahead, and nothing stays.
    """
    p, n, largest = counts.total, ranks, 4 * counts.largest
    buffers = bucket + largest
    return Bytes(4 * p / n, 4 * p / n + largest, 12 * p / n, buffers, gathered=largest)


PEAKS: dict[str, Callable[..., Bytes]] = {
    "alone": lambda counts, ranks, bucket: Bytes(*(counts.total * w for w in (4, 4, 8))),
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
