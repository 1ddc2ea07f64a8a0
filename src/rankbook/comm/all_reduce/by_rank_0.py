"""all_reduce by way of one rank, which collects, adds up and sends the sum back."""

import torch
import torch.distributed as dist

from rankbook.comm.all_reduce.messages import Message, flat, timed_receive, timed_send


def all_reduce_by_rank_0(tensor: torch.Tensor) -> list[Message]:
    """Sum `tensor` over all ranks, in place; return what this rank sent and received.

    tensor: contiguous, of any shape, the same on all ranks. Raises ValueError if it is not
    contiguous.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    whole = flat(tensor, "all_reduce_by_rank_0")
    if rank > 0:
        return [timed_send(0, whole, 0), timed_receive(1, whole, 0)]
    messages, theirs = [], torch.empty_like(whole)
    for peer in range(1, n):
        messages.append(timed_receive(0, theirs, peer))
        whole.add_(theirs)
    for peer in range(1, n):
        messages.append(timed_send(1, whole, peer))
    return messages
