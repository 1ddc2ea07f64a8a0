"""all_reduce as a ring: every rank talks to its two neighbours only.

Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
Journal of Parallel and Distributed Computing 69 (2009).
"""

import torch
import torch.distributed as dist

from rankbook.comm.all_reduce.messages import Message, exchange, flat, timed_exchange


def shift(out: torch.Tensor, into: torch.Tensor) -> None:
    """Send `out` to the right, while `into` is filled from the left."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    exchange(out, (rank + 1) % world_size, into, (rank - 1) % world_size)


def ring_all_reduce(tensor: torch.Tensor) -> list[Message]:
    """Sum `tensor` over all ranks, in place; return what this rank sent.

    tensor: contiguous, of any shape, the same on all ranks. It is cut
    into world_size chunks; their sizes may differ by one, and may be 0.
    Raises ValueError if it is not contiguous.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = flat(tensor, "ring_all_reduce").tensor_split(n)  # views
    messages = []

    # reduce_scatter: partial sums go around and grow
    for s in range(n - 1):
        mine, theirs = (rank - s) % n, (rank - s - 1) % n
        into = torch.empty_like(chunks[theirs])
        messages.append(timed_exchange(s, mine, chunks[mine], right, into, left))
        chunks[theirs].add_(into)

    # all_gather: complete sums go around
    for s in range(n - 1):
        mine, theirs = (rank + 1 - s) % n, (rank - s) % n
        into, step = chunks[theirs], n - 1 + s
        messages.append(timed_exchange(step, mine, chunks[mine], right, into, left))

    return messages
