"""A DTensor and what of it is on this rank. Works on plain tensors, too."""

from typing import Any

import torch


def is_dtensor(tensor: Any) -> bool:
    """Whether it is a DTensor, without importing what defines them: that takes a second."""
    return hasattr(tensor, "device_mesh") and hasattr(tensor, "placements")


def to_local(tensor: Any) -> torch.Tensor:
    """What of `tensor` is on this rank, in the same memory, detached: of a DTensor, its shard."""
    return tensor.to_local().detach() if is_dtensor(tensor) else tensor.detach()


def from_local(local: torch.Tensor, like: Any) -> torch.Tensor:
    """The inverse of `to_local`: a tensor placed as `like`, of which this rank has `local`."""
    if not is_dtensor(like):
        return local
    from torch.distributed.tensor import DTensor

    placed = like.device_mesh, like.placements
    return DTensor.from_local(local, *placed, shape=like.shape, stride=like.stride())
