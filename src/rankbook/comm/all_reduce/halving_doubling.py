"""all_reduce by halving and doubling: in log2(n) steps to the sums, and in as many back.

Source: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of Collective Communication
Operations in MPICH", 2005, section 4.5, https://doi.org/10.1177/1094342005051521
"""

import torch
import torch.distributed as dist

from rankbook.comm.all_reduce.messages import (
    Message,
    flat,
    timed_exchange,
    timed_receive,
    timed_send,
)


def halving_doubling_all_reduce(tensor: torch.Tensor) -> list[Message]:
    """Sum `tensor` over all ranks, in place; return what this rank sent and received in turn.

    tensor: contiguous, of any shape, the same on all ranks. Where their number is no power of two,
    the surplus ranks fold: each hands its tensor to a rank below and gets the sum in the end.
    Raises ValueError if it is not contiguous.
    """
    whole = flat(tensor, "halving_doubling_all_reduce")
    rank, n = dist.get_rank(), dist.get_world_size()
    power = 1 << n.bit_length() - 1  # the largest power of two up to n
    if rank >= power:
        below = rank - power
        return [timed_send(-1, whole, below), timed_receive(99, whole, below)]
    folded, messages = rank + power < n, []
    if folded:
        theirs = torch.empty_like(whole)
        messages.append(timed_receive(-1, theirs, rank + power))
        whole.add_(theirs)
    messages += halve_and_double(whole, rank, power)
    if folded:
        messages.append(timed_send(99, whole, rank + power))
    return messages


def halve_and_double(whole: torch.Tensor, rank: int, n: int) -> list[Message]:
    """The same for the ranks below `n`, a power of two. whole: 1-D, cut into n chunks."""
    edges = [i * len(whole) // n for i in range(n + 1)]
    first, size, messages = 0, n, []  # this rank's part: chunks first ... first + size - 1

    def part(first: int) -> torch.Tensor:
        return whole[edges[first] : edges[first + size]]

    # reduce_scatter: the part halves, down to one chunk, and its sum grows
    while size > 1:
        size //= 2
        peer, halves = rank ^ size, (first, first + size)
        mine, theirs = halves if rank < peer else halves[::-1]
        into = torch.empty_like(part(mine))
        step = len(messages)
        messages.append(timed_exchange(step, theirs, part(theirs), peer, into, peer))
        part(mine).add_(into)
        first = mine

    # all_gather: the part doubles, up to the whole
    while size < n:
        peer = rank ^ size
        theirs, step = first + (peer - rank), len(messages)
        messages.append(timed_exchange(step, first, part(first), peer, part(theirs), peer))
        first, size = min(first, theirs), 2 * size
    return messages
