"""How long does it take? Several ways of doing a thing, timed by turns, on one rank or on all."""

import statistics
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import torch
import torch.distributed as dist

Name = TypeVar("Name", bound=Hashable)
CLOCKS = ("own", "slowest rank", "rank 0")


def time_interleaved(
    ways: Mapping[Name, Callable[[], object]],
    repeats: int | Mapping[Name, int] = 8,
    device: torch.device | str = "cpu",
    warm_up: int = 1,
    clock: str = "own",
) -> dict[Name, list[float]]:
    """Seconds of each of `ways`, by name, as often as `repeats` says: of all, or of each.

    Each turn runs every way once, every other turn backwards: a slow minute is slow for all, and
    after an even number of turns a steady drift has hit all alike. The turns of the warm-up come
    before and are not kept. The clock waits for `device`, before and after.

    clock: "own", of this process. With the others all ranks call, with the same ways; each run
    begins after a barrier, and all ranks get the seconds of the "slowest rank", or of "rank 0".
    Raises ValueError without ways or repeats, or for another clock.
    """
    counts = repeats if isinstance(repeats, Mapping) else dict.fromkeys(ways, repeats)
    if not ways or min(counts.values()) < 1:
        raise ValueError("time_interleaved needs one way at least, and one repeat of each")
    if clock not in CLOCKS:
        raise ValueError(f"clock {clock!r} is unknown; use one of {', '.join(CLOCKS)}")
    device = torch.device(device)
    seconds: dict[Name, list[float]] = {name: [] for name in ways}
    for turn, name in in_turns(ways, max(counts.values()), warm_up):
        if turn < counts[name]:
            if clock != "own":
                dist.barrier()  # nobody waits for a rank that is late
            took = time_once(ways[name], device)
            if turn >= 0:
                seconds[name].append(took)
    if clock == "own":
        return seconds
    return {name: _agreed(times, device, clock) for name, times in seconds.items()}


def in_turns(names: Iterable[Name], repeats: int, warm_up: int = 0) -> Iterator[tuple[int, Name]]:
    """Turn and name, in the order of interleaved work; turns of the warm-up are negative.

    Every other turn goes backwards.
    """
    forward = list(names)
    for turn in range(-warm_up, repeats):
        for name in forward[::-1] if turn > 0 and turn % 2 else forward:
            yield turn, name


def time_once(work: Callable[[], object], device: torch.device) -> float:
    """Seconds until `work` has returned and `device` has done what it was given."""
    start = now(device)
    work()
    return now(device) - start


def now(device: torch.device) -> float:
    """Seconds of the clock once `device` has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _agreed(times: list[float], device: torch.device, clock: str) -> list[float]:
    shared = torch.tensor(times, dtype=torch.float64, device=device)
    if clock == "rank 0":
        dist.broadcast(shared, src=0)
    else:
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return shared.tolist()


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


def spread(seconds: Iterable[float]) -> dict[str, float]:
    """The ``median`` of repeated times, and the 10th and 90th percentile: ``p10``, ``p90``.

    seconds: at least one. Raises `statistics.StatisticsError` for none.
    """
    times = sorted(seconds)
    tenth = len(times) // 10
    return {"median": statistics.median(times), "p10": times[tenth], "p90": times[-1 - tenth]}


def gain(before: Sequence[float], after: Sequence[float]) -> dict[str, float]:
    """How many times as fast `after` is: the spread of the ratios, turn by turn.

    Both are lists of `time_interleaved`, from the same call. A ratio within one turn does not see
    that the machine was slow in it. Raises ValueError if they have different lengths.
    """
    return spread(a / b for a, b in zip(before, after, strict=True))
