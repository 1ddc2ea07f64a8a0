"""Clocks that ranks share, or that are set against each other.

On one machine all processes read the same `time.monotonic`: it counts from the machine's start.
Clocks of several machines are compared by asking, F. Cristian, "Probabilistic clock
synchronization", Distributed Computing 3 (1989): an answer was read between the question and its
arrival, so half of that time is the most by which the middle can be wrong.
"""

import platform
import time

import torch
import torch.distributed as dist

from rankbook.core.agreement import gather
from rankbook.core.placement import group_device

ROUNDS = 16


def now() -> float:
    """Seconds on this machine's clock."""
    return time.monotonic()


def machine() -> str:
    """The name of the machine that this rank runs on."""
    return platform.node()


def event_clock() -> "HostClock | CudaEventClock":
    """What this process times events by: CUDA events in the stream, once it has used CUDA."""
    return CudaEventClock() if torch.cuda.is_initialized() else HostClock()


class HostClock:
    """Its stamps are seconds of `now` already."""

    def stamp(self) -> float:
        """When this is called, in seconds."""
        return now()

    def finish(self) -> None:
        """Nothing is left to wait for."""

    def seconds(self, stamp: float) -> float:
        """The seconds of `stamp`."""
        return stamp


class CudaEventClock:
    """Stamps are CUDA events in the current stream, counted from one whose time is known."""

    def __init__(self):
        torch.cuda.synchronize()
        self._first = self.stamp()
        self._first.synchronize()  # so it happened a few microseconds before
        self._zero = now()

    def stamp(self) -> torch.cuda.Event:
        """When the stream has come so far, as an event that is not there yet."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def finish(self) -> None:
        """Wait until all stamps have their time."""
        torch.cuda.synchronize()

    def seconds(self, stamp: torch.cuda.Event) -> float:
        """The seconds of `stamp`, on the clock of `now`."""
        return self._zero + self._first.elapsed_time(stamp) / 1e3


def clock_offsets(group: dist.ProcessGroup | None = None) -> tuple[list[float], float]:
    """By how many seconds the clock of each rank of `group` is ahead of the first one's.

    All ranks of the group must call; all get the same. Returns the offsets by rank, and the most
    by which one of them can be wrong. Ranks on the first one's machine have offset 0, exactly.
    """
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    machines = gather(machine(), group)
    others = [r for r in range(size) if machines[r] != machines[0]]
    found = torch.zeros(size, 2, dtype=torch.float64, device=group_device(group))
    for other in others:
        if rank == 0:
            found[other] = torch.tensor(_ask(other, group))
        elif rank == other:
            _answer(group)
    dist.broadcast(found, group=group, group_src=0)
    return found[:, 0].tolist(), found[:, 1].max().item()


def _ask(other: int, group: dist.ProcessGroup | None) -> tuple[float, float]:
    """Offset of the rank `other`, and its error: of the round that took the shortest time."""
    theirs = torch.zeros(1, dtype=torch.float64, device=group_device(group))
    rounds = []
    for _ in range(ROUNDS):
        asked = now()
        dist.send(theirs, group=group, group_dst=other)
        dist.recv(theirs, group=group, group_src=other)
        clock = theirs.item()  # on a GPU, this waits for the answer
        answered = now()
        rounds.append(((answered - asked) / 2, clock - (asked + answered) / 2))
    error, offset = min(rounds)
    return offset, error


def _answer(group: dist.ProcessGroup | None) -> None:
    question = torch.zeros(1, dtype=torch.float64, device=group_device(group))
    for _ in range(ROUNDS):
        dist.recv(question, group=group, group_src=0)
        question.item()
        dist.send(torch.full_like(question, now()), group=group, group_dst=0)
