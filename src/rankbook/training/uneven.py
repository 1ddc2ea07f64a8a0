"""Training where ranks have different numbers of batches: five ways, and what each should give.

Without any of them, the ranks with more batches wait in an all_reduce for those with fewer. Source
of Join: https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from rankbook.core.placement import group_device
from rankbook.training.microsteps import equal_steps

WAYS = ("join", "join-remaining", "has-data", "drop", "pad")
Batch = tuple[torch.Tensor, torch.Tensor]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class UnevenEpoch(NamedTuple):
    """What a rank trained on, the numbers of its batches in order, and the seconds of all ranks."""

    took: list[int]
    seconds: float


def train_uneven(
    model: nn.Module,
    optimizer: Optimizer,
    batches: Sequence[Batch],
    loss: Loss,
    how: str = "join",
    group: dist.ProcessGroup | None = None,
) -> UnevenEpoch:
    """Train `model` once over this rank's `batches`, one of the `WAYS`; on all ranks of `group`.

    how: "join" and "join-remaining" are DDP in Join, with the gradient divided by all ranks or by
    those that have inputs left; "has-data" is `equal_steps`; with "drop" all stop with the
    shortest; with "pad" a rank begins again with its first batch until the longest is done.
    model: with the same values on all ranks; DDP is put around it here. optimizer: of its
    parameters. loss: the mean over the samples of a batch. Raises ValueError, on all ranks, for an
    unknown way, or a rank without batches where the way cannot do without.
    """
    _check(how)
    counts = _counts(len(batches), group)
    if not min(counts) and how in ("has-data", "pad"):
        raise ValueError(f"how {how!r} needs a batch on every rank, but they have {counts}")
    ddp = DistributedDataParallel(model, process_group=group)
    took = list(turns(range(len(batches)), counts, how))
    dist.barrier(group)
    start = time.perf_counter()
    if how == "has-data":
        for (inputs, targets), scale, _ in equal_steps(batches, group=group):
            _step(ddp, optimizer, lambda x, y, s=scale: loss(x, y) * s, inputs, targets)
    elif how.startswith("join"):
        with Join([ddp], divide_by_initial_world_size=how == "join"):
            for inputs, targets in batches:
                _step(ddp, optimizer, loss, inputs, targets)
    else:
        for number in took:
            _step(ddp, optimizer, loss, *batches[number])
    dist.barrier(group)
    return UnevenEpoch(took, time.perf_counter() - start)


def uneven_reference(
    model: nn.Module,
    optimizer: Optimizer,
    shards: Sequence[Sequence[Batch]],
    loss: Loss,
    how: str,
) -> None:
    """Train `model` in one process as `train_uneven` should on ranks that hold `shards`.

    Nothing of what the ways use is used here: each step is a sum of losses with the factors that
    the way stands for. how: one of `WAYS`, or "once": every sample once, each step the mean over
    its samples. Raises ValueError for an unknown way.
    """
    _check(how, "once")
    counts = [len(shard) for shard in shards]
    taken = [turns(shard, counts, how) for shard in shards]
    for step in range(max(map(len, taken))):
        now = [of_rank[step] for of_rank in taken if step < len(of_rank)]
        optimizer.zero_grad()
        losses = (
            factor * loss(model(inputs), targets)
            for factor, (inputs, targets) in zip(factors(now, len(shards), how), now, strict=True)
        )
        cast(torch.Tensor, sum(losses)).backward()
        optimizer.step()


def weigh_inputs(
    counts: Sequence[int], how: str, group: dist.ProcessGroup | None = None
) -> list[torch.Tensor]:
    """Measure, by a training, how much each input counts: one tensor a rank.

    counts: how many inputs each rank of `group` has. 1 is what an input counts in a step in which
    all ranks have one; 0 is never, 2 twice as much. The model is a `torch.nn.Linear` in which
    input i moves the parameter i, and nothing else does, so its parameters are the answer.
    On all ranks; all get the same. Raises ValueError as `train_uneven` does.
    """
    ranks, rank, device = dist.get_world_size(group), dist.get_rank(group), group_device(group)
    if len(counts) != ranks:
        raise ValueError(f"counts {list(counts)} are of {len(counts)} ranks, not of {ranks}")
    first = sum(counts[:rank])
    inputs = torch.eye(sum(counts), device=device)[first : first + counts[rank]]
    batches = [(each[None], torch.ones(1, 1, device=device)) for each in inputs]
    model = nn.Linear(sum(counts), 1, bias=False, device=device)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=ranks)  # DDP's mean divides by ranks
    train_uneven(model, optimizer, batches, lambda x, y: -(x * y).mean(), how, group)
    return list(model.weight.detach()[0].cpu().split(list(counts)))


def _step(model, optimizer: Optimizer, loss: Loss, inputs, targets) -> None:
    optimizer.zero_grad()
    loss(model(inputs), targets).backward()
    optimizer.step()


def turns(batches: Sequence, counts: Sequence[int], how: str) -> list:
    """Which of its `batches` a rank trains on, in order; counts: how many each rank has."""
    if how == "drop":
        return list(batches[: min(counts)])
    if how == "pad":
        return [batches[i % len(batches)] for i in range(max(counts))]
    return list(batches)


def factors(batches: Sequence[Batch], ranks: int, how: str) -> list[float]:
    """What the mean loss of each of the `batches` of one step is multiplied with.

    batches: those that some rank has in this step; ranks: of all. "has-data" and "once" weigh by
    samples; "join-remaining" divides by the ranks that still have a batch, the others by all.
    """
    if how in ("has-data", "once"):
        samples = [len(inputs) for inputs, _ in batches]
        return [n / sum(samples) for n in samples]
    return [1 / (len(batches) if how == "join-remaining" else ranks)] * len(batches)


def _check(how: str, *more: str) -> None:
    if how not in (*WAYS, *more):
        raise ValueError(f"how {how!r} is unknown; use {', '.join((*WAYS, *more))}")


def _counts(count: int, group: dist.ProcessGroup | None) -> list[int]:
    """`count` of every rank."""
    found = [0.0] * dist.get_world_size(group)
    found[dist.get_rank(group)] = count
    return [int(n) for n in _sum(found, group, group_device(group))]


def _sum(values: list[float], group: dist.ProcessGroup | None, device: torch.device) -> list[float]:
    total = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(total, group=group)
    return total.tolist()
