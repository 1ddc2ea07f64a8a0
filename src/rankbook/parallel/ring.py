"""all_reduce as a ring: every rank talks to its two neighbours only.

Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
Journal of Parallel and Distributed Computing 69 (2009).
"""

import time
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class Message:
    """One chunk on its way: what `source` sent to `target`, and when.

    start, end: `time.monotonic`, in seconds; all processes of one machine read the same clock.
    """

    step: int
    chunk: int
    source: int
    target: int
    nbytes: int
    start: float
    end: float


def shift(out: torch.Tensor, into: torch.Tensor) -> None:
    """Send `out` to the right, while `into` is filled from the left."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    send = dist.P2POp(dist.isend, out, (rank + 1) % world_size)
    receive = dist.P2POp(dist.irecv, into, (rank - 1) % world_size)
    for work in dist.batch_isend_irecv([send, receive]):
        work.wait()


def ring_all_reduce(tensor: torch.Tensor) -> list[Message]:
    """Sum `tensor` over all ranks, in place; return what this rank sent.

    tensor: contiguous, of any shape, the same on all ranks. It is cut
    into world_size chunks; their sizes may differ by one, and may be 0.
    Raises ValueError if it is not contiguous.
    """
    if not tensor.is_contiguous():
        raise ValueError("ring_all_reduce: pass tensor.contiguous()")
    rank, n = dist.get_rank(), dist.get_world_size()
    chunks = tensor.view(-1).tensor_split(n)  # views, not copies
    messages = []

    # reduce_scatter: partial sums go around and grow
    for s in range(n - 1):
        mine, theirs = (rank - s) % n, (rank - s - 1) % n
        into = torch.empty_like(chunks[theirs])
        messages.append(_timed_shift(s, mine, chunks[mine], into))
        chunks[theirs].add_(into)

    # all_gather: complete sums go around
    for s in range(n - 1):
        mine, theirs = (rank + 1 - s) % n, (rank - s) % n
        into = chunks[theirs]
        messages.append(_timed_shift(n - 1 + s, mine, chunks[mine], into))

    return messages


def _timed_shift(step: int, chunk: int, out: torch.Tensor, into: torch.Tensor) -> Message:
    start = time.monotonic()
    shift(out, into)
    if into.is_cuda:  # the call returns before the copy is done
        torch.cuda.synchronize(into.device)
    rank = dist.get_rank()
    target = (rank + 1) % dist.get_world_size()
    return Message(step, chunk, rank, target, out.nbytes, start, time.monotonic())
