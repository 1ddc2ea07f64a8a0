"""A loop in which all ranks take equally many steps, however many batches each of them has.

Without it, or Join, the ranks with more batches wait in an all_reduce for those with fewer.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from rankbook.core.placement import group_device


class Microstep(NamedTuple):
    """What `equal_steps` gives a rank to do; `last`: the optimizer steps after it."""

    batch: Any
    scale: float
    last: bool


def samples_of(batch: Any) -> int:
    """How many samples a batch has: the length of its first tensor."""
    return len(batch[0] if isinstance(batch, (tuple, list)) else batch)


def equal_steps(
    batches: Iterable,
    accumulate: int = 1,
    group: dist.ProcessGroup | None = None,
    weight: Callable[[Any], float] = samples_of,
) -> Iterator[Microstep]:
    """Give all ranks of `group` equally many turns, until none of them has a batch left.

    ::

        for (inputs, targets), scale, last in equal_steps(batches):
            optimizer.zero_grad()
            (loss(model(inputs), targets) * scale).backward()
            optimizer.step()

    A rank whose `batches` are used up gets its last one again, with scale 0: it calls what the
    others call, and adds nothing to the gradient (statistics of batch normalisation do see it
    again; and 0 times infinity is not 0). Otherwise scale is ranks x (samples here) / (samples on
    all ranks in this optimizer step): with it, a gradient that is averaged over ranks is the one
    of the mean over all samples of the step. So it works with whatever averages: DDP, compiled or
    not, FSDP, a pipeline's replicas. Each step has one more all_reduce, of a few numbers; it runs
    while the step before is computed.

    accumulate: turns in an optimizer step, of which the last has `last` set; twice as many batches
    are held at a time. weight: of a batch, instead of its samples; the loss must be the mean over
    it. Raises ValueError, on all ranks, if a rank has no batch at all to repeat.
    """
    if accumulate < 1:
        raise ValueError(f"accumulate {accumulate} gives no turns; use 1 or more")
    ranks, device = dist.get_world_size(group), group_device(group)
    iterator, spare = iter(batches), None

    def ask() -> tuple:
        """Take what comes next here, and begin to sum up what all ranks have."""
        mine = list(islice(iterator, accumulate))
        weights = [float(weight(batch)) for batch in mine]
        absent = [0.0] * (accumulate - len(mine))
        empty = not mine and spare is None
        told = torch.tensor([sum(weights), empty, *[1.0] * len(mine), *absent], dtype=torch.float64)
        told = told.to(device)
        return mine, weights, told, dist.all_reduce(told, group=group, async_op=True)

    asked = ask()
    while True:
        mine, weights, told, work = asked
        work.wait()
        total, empty, *present = told.tolist()
        turns = sum(holders > 0 for holders in present)
        if not turns:
            return
        if empty:
            raise ValueError(
                f"{empty:.0f} of {ranks} ranks have no batch at all, not even one to repeat with "
                "scale 0; give every rank at least one"
            )
        spare = mine[-1] if mine else spare
        asked = ask()  # the answer comes while the step is computed
        for turn in range(turns):
            here = turn < len(mine)
            scale = ranks * weights[turn] / total if here and total else 0.0
            yield Microstep(mine[turn] if here else spare, scale, turn == turns - 1)
