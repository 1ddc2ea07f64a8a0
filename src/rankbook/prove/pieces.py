"""Which piece of a whole tensor a rank has, and that piece of the twin's."""

import math
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import torch
from torch.distributed.device_mesh import DeviceMesh

from rankbook.core.dtensor import is_dtensor

Cut = Callable[[torch.Tensor], torch.Tensor]


class Piece(NamedTuple):
    """A rank's piece of a tensor: how to cut it from the whole, and a name for which one it is."""

    cut: Cut
    named: str

    def which(self, whole: torch.Tensor) -> str:
        """The same word on all ranks that have the same piece of `whole`."""
        if self.named:
            return self.named
        places = self.cut(torch.arange(whole.numel()).view(whole.shape)).flatten()
        return f"{places.numel()}:{int(places.sum())}:{int((places * places % 1000003).sum())}"


WHOLE = Piece(lambda whole: whole, "whole")


def is_partial(tensor: Any) -> bool:
    """Whether the ranks hold parts of a sum."""
    return is_dtensor(tensor) and any(p.is_partial() for p in tensor.placements)


def piece_of(tensor: Any, name: str, layout: "Layout") -> Piece:
    """The piece that `tensor`, `name` in the twin, is: a DTensor says it, else the layout."""
    if is_dtensor(tensor):
        return _placed(tensor.placements, tensor.device_mesh)
    return layout.find(name)


class Layout:
    """The pieces of plain tensors, by patterns of names as a shell has them (``*.up.weight``).

    placements: of each pattern a placement (Shard, Replicate) for a mesh of one dimension, one
    for each of its dimensions, a dictionary of them by dimension, or a function that cuts this
    rank's piece out of the whole tensor. What no pattern fits is whole on every rank that has it.
    """

    def __init__(self, placements: dict[str, Any] | None, mesh: DeviceMesh | None):
        self.placements, self.mesh = placements or {}, mesh
        self.pieces = {pattern: self._piece(pattern, p) for pattern, p in self.placements.items()}

    def find(self, name: str) -> Piece:
        """The piece of `name`: the first pattern that fits says it."""
        fits = (piece for pattern, piece in self.pieces.items() if fnmatchcase(name, pattern))
        return next(fits, WHOLE)

    def check(self, names: Iterable[str]) -> None:
        """Raise ValueError where a pattern fits none of the twin's `names`."""
        names = list(names)
        for pattern in self.placements:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ValueError(f"layout: {pattern!r} fits no parameter of the twin")

    def _piece(self, pattern: str, given: Any) -> Piece:
        if callable(given):
            return Piece(given, "")
        if self.mesh is None:
            raise ValueError(f"layout: {pattern!r} has placements, so say over which ranks: mesh=")
        if isinstance(given, dict):
            placements: list[Any] = [None] * self.mesh.ndim
            dimensions = self.mesh.mesh_dim_names or ()
            for dimension, placement in given.items():
                if dimension not in dimensions:
                    raise ValueError(f"layout: {pattern!r}: the mesh has no {dimension!r}")
                placements[dimensions.index(dimension)] = placement
        else:
            placements = list(given) if isinstance(given, tuple | list) else [given]
        if len(placements) != self.mesh.ndim:
            raise ValueError(
                f"layout: {pattern!r} has {len(placements)} placements for a mesh of "
                f"{self.mesh.ndim} dimensions; give one each, or {{dimension: placement}}"
            )
        return _placed(placements, self.mesh)


def _placed(placements: Iterable[Any], mesh: DeviceMesh) -> Piece:
    """The piece of this rank under DTensor's `placements`, which cut from left to right."""
    where = mesh.get_coordinate()
    if where is None:
        raise ValueError("this rank holds a piece of a mesh that it is not in")
    cuts = []
    for placement, index, count in zip(placements, where, mesh.shape, strict=True):
        # of torch's two kinds of sharding, the strided one has a split_factor
        if placement is not None and hasattr(placement, "dim"):
            cuts.append((placement.dim, getattr(placement, "split_factor", 1), index, count))

    def cut(whole: torch.Tensor) -> torch.Tensor:
        for dim, factor, index, count in cuts:
            blocks = whole.chunk(factor, dim) if factor > 1 else [whole]
            shards = [_shard(block, dim, index, count) for block in blocks]
            whole = torch.cat(shards, dim) if factor > 1 else shards[0]
        return whole

    which = " ".join(f"{dim}:{factor}:{index}/{count}" for dim, factor, index, count in cuts)
    return Piece(cut, which or "whole")


def _shard(tensor: torch.Tensor, dim: int, index: int, count: int) -> torch.Tensor:
    """As torch.chunk cuts, but that the last ones may be empty."""
    size = tensor.shape[dim]
    each = math.ceil(size / count)
    start = min(index * each, size)
    return tensor.narrow(dim, start, min(each, size - start))
