"""Monarch's side: a rank as an actor, and an actor beside it that can say where the rank is."""

import os
import signal
import sys
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
from monarch.actor import Actor, current_rank, current_size, endpoint  # pyrefly: ignore[missing-import]

TIMEOUT = timedelta(seconds=10)  # gloo's


class Rank(Actor):
    """One rank of a gloo group. Its messages come in one by one: `step` holds up the next."""

    def __init__(self):
        self.rank = current_rank().rank

    @endpoint
    def join(self, store: str) -> None:
        """Make the process group; `store` is a file that no group has used yet."""
        size = current_size()["gpus"]
        dist.init_process_group("gloo", f"file://{store}", TIMEOUT, size, self.rank)

    @endpoint
    def step(self, fault: str | None = None) -> list[float]:
        """One all_reduce, before which rank 1 commits the fault."""
        x = torch.ones(4)
        if self.rank == 1:
            if fault == "raises":
                raise ValueError("no data on rank 1")
            if fault == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if fault == "hangs":
                time.sleep(600)
            if fault == "shape":
                x = torch.ones(8)
        dist.all_reduce(x)
        return x.tolist()

    @endpoint
    def steps(self, count: int) -> None:
        """Many of them in one message."""
        for _ in range(count):
            dist.all_reduce(torch.ones(4))


class Watcher(Actor):
    """Lives in the process of a rank, and answers while the rank is busy."""

    @endpoint
    def where(self) -> str:
        """The line of `step` that the rank is in."""
        for frame in sys._current_frames().values():
            for entry in traceback.extract_stack(frame):
                if entry.name == "step" and entry.filename == __file__:
                    return f"is in line {entry.lineno}: {entry.line}"
        return "is idle"

    @endpoint
    def leave(self) -> None:
        """End the group here; whoever waits for this rank is told so by its connection."""
        if dist.is_initialized():
            dist.destroy_process_group()
