"""Stamps: when something happened, on the host or in a GPU's stream, in seconds of one clock."""

import torch

from rankbook.parallel import clocks


def stamps() -> "HostClock | CudaEvents":
    """What this process is to take its stamps from: events, once it has used CUDA."""
    return CudaEvents() if torch.cuda.is_initialized() else HostClock()


class HostClock:
    """Stamps are seconds already."""

    def stamp(self) -> float:
        return clocks.now()

    def finish(self) -> None:
        pass

    def seconds(self, stamp: float) -> float:
        return stamp


class CudaEvents:
    """Stamps are CUDA events in the current stream, counted from one whose time is known."""

    def __init__(self):
        torch.cuda.synchronize()
        self._first = self.stamp()
        self._first.synchronize()  # so it happened a few microseconds before
        self._zero = clocks.now()

    def stamp(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def finish(self) -> None:
        torch.cuda.synchronize()

    def seconds(self, stamp: torch.cuda.Event) -> float:
        return self._zero + self._first.elapsed_time(stamp) / 1e3
