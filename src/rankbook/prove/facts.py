"""Numbers that say how far a rank's piece of a tensor is from the twin's."""

import math
import zlib
from dataclasses import dataclass, replace

import torch

SKETCHES = 6  # two different tensors look alike in that many random directions: never


@dataclass(frozen=True)
class Facts:
    """One rank's piece of one tensor beside the same piece of the twin's.

    which: which piece. count, of: its elements, and those of the whole. mine, twin, apart:
    squares of the 2-norms of both and of their difference. along: their inner product. sketch,
    twin_sketch: both seen in random directions, the same on all ranks; empty where it is right.
    allowed: the largest 2-norm of the difference that is rounding. size: what is compared with.
    missing: no gradient here.
    """

    which: str
    count: int
    of: int
    mine: float
    twin: float
    apart: float
    along: float
    allowed: float
    size: float
    sketch: tuple[float, ...] = ()
    twin_sketch: tuple[float, ...] = ()
    missing: bool = False

    @property
    def wrong(self) -> bool:
        """Whether the difference is more than rounding; one that is not a number is."""
        return not math.sqrt(self.apart) <= self.allowed

    @property
    def off(self) -> float:
        """The relative difference, as the tolerance takes it."""
        if not math.isfinite(self.apart):
            return math.inf
        return math.sqrt(self.apart) / self.size if self.size else float(self.apart > 0)


def measure(
    name: str, which: str, mine: torch.Tensor | None, twin: torch.Tensor, of: int, floor: float,
    tolerance: float, more: float = 0.0,
) -> Facts:  # fmt: skip
    """Compare `mine`, None if there is none, with the piece `twin` of a tensor of `of` elements.

    The difference may be `tolerance` times the sum of the twin's norm and of the norm that the
    piece would have if each element were `floor`; and `more`.
    """
    right = _flat(twin)
    left = torch.zeros_like(right) if mine is None else _flat(mine.to(twin.device))
    apart = left - right
    square = float(right.dot(right))
    size = math.sqrt(square) + floor * math.sqrt(right.numel())
    allowed = tolerance * size + more
    facts = Facts(
        which,
        right.numel(),
        of,
        float(left.dot(left)),
        square,
        float(apart.dot(apart)),
        float(left.dot(right)),
        allowed,
        size,
        missing=mine is None,
    )
    if not facts.wrong:
        return facts
    views = _sketch(name, which, left), _sketch(name, which, right)
    return replace(facts, sketch=views[0], twin_sketch=views[1])


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.to(torch.float64).reshape(-1)


def _sketch(name: str, which: str, flat: torch.Tensor) -> tuple[float, ...]:
    """Inner products with random vectors that every rank draws alike: linear in the tensor."""
    generator = torch.Generator().manual_seed(zlib.crc32(f"{name} {which}".encode()))
    return tuple(
        float(flat.dot(torch.randn(flat.numel(), generator=generator).to(flat)))
        for _ in range(SKETCHES)
    )
