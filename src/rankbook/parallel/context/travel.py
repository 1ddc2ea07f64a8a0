"""A tensor goes to the next rank of a ring, while that of the rank before comes in."""

from typing import Any

import torch
import torch.distributed as dist


class OnItsWay:
    """A message to the right and one from the left that were begun; `wait` gives what came."""

    def __init__(self, works: list[Any], out: torch.Tensor, into: torch.Tensor):
        self._works, self._out, self._into = works, out, into  # neither may go before it is done

    def wait(self) -> torch.Tensor:
        """What the rank before sent: as large as what was sent."""
        for work in self._works:
            work.wait()
        return self._into


def ring_send_recv(tensor: torch.Tensor, group: dist.ProcessGroup | None) -> OnItsWay:
    """Begin to send `tensor` to the next rank of `group`, and to receive as much from the last.

    All ranks must call it, with tensors of one shape and type, two ranks at least. Both messages
    are given to the backend together: with one after the other, nccl's ranks would all wait for
    somebody to receive.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    right, left = (_global((rank + by) % ranks, group) for by in (1, -1))
    out, into = tensor.contiguous(), torch.empty_like(tensor).contiguous()
    both = [
        dist.P2POp(dist.isend, out, right, group),
        dist.P2POp(dist.irecv, into, left, group),
    ]
    return OnItsWay(dist.batch_isend_irecv(both), out, into)


def _global(rank: int, group: dist.ProcessGroup | None) -> int:
    return rank if group is None else dist.get_global_rank(group, rank)
