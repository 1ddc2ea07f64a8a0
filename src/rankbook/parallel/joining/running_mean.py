"""A mean over the inputs of all ranks, also where some ranks have fewer: a Joinable.

Source of the protocol: https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html
"""

from typing import cast

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join, Joinable, JoinHook


class RunningMean(Joinable):
    """The weighted mean of what all ranks of `group` were given: a loss per token, for one.

    ::

        mean = RunningMean(device)
        with Join([model, mean]):
            for inputs, targets in batches:
                ...
                mean.update(loss, weight=targets.numel())
        mean.mean  # the same on every rank

    device: where the group's backend takes tensors from. A rank that has joined adds zeros to
    every update of the others, and adds up what it hears, so there is nothing left to make equal
    in the end. Without Join, all ranks must call `update` equally often.
    """

    def __init__(self, device: torch.device | str = "cpu", group: dist.ProcessGroup | None = None):
        super().__init__()
        self._device = torch.device(device)
        self._group = cast(dist.ProcessGroup, group or dist.group.WORLD)
        # value x weight, weight; one type on all ranks: gloo takes nothing but bytes
        self._sums = torch.zeros(2, dtype=torch.float64, device=self._device)

    def update(self, value: torch.Tensor | float, weight: float = 1.0) -> None:
        """Count `value`, a scalar, with `weight`; on every rank that has an input left."""
        Join.notify_join_context(self)
        value = torch.as_tensor(value, dtype=torch.float64, device=self._device).detach()
        self._add(torch.stack([value * weight, torch.full_like(value, weight)]))

    @property
    def mean(self) -> float:
        """The mean so far. Raises ValueError before the first update with a weight above 0."""
        total, weight = self._sums.tolist()
        if not weight:
            raise ValueError("a mean of nothing: call update(value, weight) first")
        return total / weight

    @property
    def weight(self) -> float:
        """The sum of all weights so far."""
        return self._sums[1].item()

    def _add(self, sums: torch.Tensor) -> None:
        dist.all_reduce(sums, group=self._group)
        self._sums += sums

    def join_hook(self, **_) -> JoinHook:
        """What a rank does for the others once its own inputs are used up."""
        return _Shadow(self)

    @property
    def join_device(self) -> torch.device:
        """Where Join's own messages come from."""
        return self._device

    @property
    def join_process_group(self) -> dist.ProcessGroup:
        """Among whom Join's own messages go."""
        return self._group


class _Shadow(JoinHook):
    def __init__(self, running: RunningMean):
        self._running = running

    def main_hook(self) -> None:
        self._running._add(torch.zeros_like(self._running._sums))
