"""Ways of taking a step, timed on all ranks in turns."""

import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import torch
import torch.distributed as dist

Key = TypeVar("Key", bound=Hashable)


def turns_of_ranks(
    ways: Mapping[Key, Callable[[], object]], turns: int = 8, warm_up: int = 2
) -> dict[Key, list[float]]:
    """Seconds that each way takes until the slowest rank is done: `turns` numbers a way.

    All ranks call, with the same ways. Every turn goes through all of them, every other one
    backwards, as in `rankbook.speed.in_turns`; the turns of the warm-up come before and are not
    kept. Raises ValueError without a turn.
    """
    if turns < 1:
        raise ValueError(f"turns is {turns}; it must be 1 or more")
    names = list(ways)
    seconds: dict[Key, list[float]] = {name: [] for name in names}
    for turn in range(-warm_up, turns):
        for name in names[::-1] if turn % 2 else names:
            dist.barrier()
            start = time.perf_counter()
            ways[name]()
            _finish()
            dist.barrier()
            if turn >= 0:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def one_process(work: Callable[[], object], threads: int = 1) -> Callable[[], object]:
    """`work` on rank 0 alone, with so many threads; the other ranks have nothing to do."""

    def run() -> object:
        if dist.get_rank():
            return None
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            return work()
        finally:
            torch.set_num_threads(before)

    return run


def _finish() -> None:
    """A GPU works on after the call has returned; the CPU does not."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
