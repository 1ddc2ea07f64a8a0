"""Parameters that are cut among ranks, seen by a layer that works with its own part only."""

from torch import Tensor
from torch.distributed.tensor import DTensor, Partial


def local(parameter: Tensor) -> Tensor:
    """What of `parameter` is on this rank; autograd goes through.

    Ranks that hold the same part of a DTensor give it different tokens: each has one summand of
    its gradient, and says so.
    """
    if not isinstance(parameter, DTensor):
        return parameter
    summands = [Partial() if p.is_replicate() else p for p in parameter.placements]
    return parameter.to_local(grad_placements=summands)
