"""One message between two ranks: how it is sent, and the note that is taken of it."""

import time
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class Message:
    """One piece on its way: what `source` sent to `target`, and when.

    chunk: the number of the piece, or of its first chunk. start, end: `time.monotonic`, in seconds,
    on the rank that took the note; all processes of one machine read the same clock.
    """

    step: int
    chunk: int
    source: int
    target: int
    nbytes: int
    start: float
    end: float


def exchange(out: torch.Tensor, target: int, into: torch.Tensor, source: int) -> None:
    """Send `out` to the rank `target`, while `into` is filled from the rank `source`."""
    send = dist.P2POp(dist.isend, out, target)
    receive = dist.P2POp(dist.irecv, into, source)
    for work in dist.batch_isend_irecv([send, receive]):
        work.wait()


def timed_exchange(
    step: int, chunk: int, out: torch.Tensor, target: int, into: torch.Tensor, source: int
) -> Message:
    """`exchange`, and a note of what was sent."""
    start = time.monotonic()
    exchange(out, target, into, source)
    finish(into.device)
    return Message(step, chunk, dist.get_rank(), target, out.nbytes, start, time.monotonic())


def timed_send(step: int, out: torch.Tensor, target: int) -> Message:
    """``dist.send``, and a note of it."""
    start = time.monotonic()
    dist.send(out, target)
    finish(out.device)
    return Message(step, 0, dist.get_rank(), target, out.nbytes, start, time.monotonic())


def timed_receive(step: int, into: torch.Tensor, source: int) -> Message:
    """``dist.recv``, and a note of it."""
    start = time.monotonic()
    dist.recv(into, source)
    finish(into.device)
    return Message(step, 0, source, dist.get_rank(), into.nbytes, start, time.monotonic())


def flat(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """`tensor` in one dimension, not copied. Raises ValueError, as `name`, if it cannot be."""
    if not tensor.is_contiguous():
        raise ValueError(f"{name}: pass tensor.contiguous()")
    return tensor.view(-1)


def finish(device: torch.device) -> None:
    """Wait for a GPU, which works on after a call has returned; the CPU does not."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
