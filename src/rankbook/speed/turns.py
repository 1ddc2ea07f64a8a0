"""Several ways of doing one thing, timed in turns: a slow minute is slow for all of them."""

from collections.abc import Callable, Mapping, Sequence

import torch

from rankbook.speed.measure import now, spread


def in_turns(
    ways: Mapping[str, Callable[[], object]],
    turns: int = 8,
    device: torch.device | str = "cpu",
) -> dict[str, list[float]]:
    """Seconds of each of `ways`, by name, one for each of `turns`.

    All of them run once before, to warm up. Then each turn runs every way once, every other turn
    backwards: after an even number of turns a steady drift has hit all alike. The clock waits for
    the device, before and after. Raises ValueError without ways or turns.
    """
    if not ways or turns < 1:
        raise ValueError("in_turns needs one way at least, and one turn")
    device = torch.device(device)
    for work in ways.values():
        work()
    names = list(ways)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(turns):
        for name in names[::-1] if turn % 2 else names:
            start = now(device)
            ways[name]()
            seconds[name].append(now(device) - start)
    return seconds


def gain(before: Sequence[float], after: Sequence[float]) -> dict[str, float]:
    """How many times as fast `after` is: the spread of the ratios, turn by turn.

    Both are lists of `in_turns`, from the same call. A ratio within one turn does not see that
    the machine was slow in it. Raises ValueError if they have different lengths.
    """
    return spread(a / b for a, b in zip(before, after, strict=True))
