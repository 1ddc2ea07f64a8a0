"""The step that all strategies have in common, and the count of what DDP sends."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn import functional as F
from torch.optim import Optimizer

from rankbook.speed.batches import Batch


@dataclass
class Traffic:
    """What one rank handed to all_reduce: how often, and how many bytes together."""

    all_reduces: int = 0
    bytes: int = 0
    buckets: dict[int, int] = field(default_factory=dict, repr=False)  # address and bytes of each

    def reset(self) -> None:
        """Count from zero again."""
        self.all_reduces = self.bytes = 0
        self.buckets.clear()


class Strategy:
    """A model that all ranks train together; what differs between strategies is overridden.

    model, optimizer: as the strategy wrapped them, with methods of their own. `name`: one of
    STRATEGIES. `traffic`: counted where DDP does the sending, otherwise None.
    """

    name = ""
    traffic: Traffic | None = None
    model: Any
    optimizer: Any

    def __init__(self, model: nn.Module, optimizer: Optimizer, device: torch.device):
        self.model, self.optimizer, self.device = model, optimizer, device
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()

    def step(self, *batches: Batch) -> torch.Tensor:
        """One optimizer step on the global batch, the same on every rank; each takes its share.

        Several batches are the parts of one global batch: their gradients are added up, and sent
        with the last. Returns the mean loss of all samples before the update, on every rank.
        Raises ValueError, on all ranks, for rows that cannot be shared evenly.
        """
        shares = [self.share(batch).to(self.device) for batch in batches]
        rows = sum(map(len, shares))
        self.zero_grad()
        if self.traffic:
            self.traffic.buckets.clear()  # DDP makes others after its first step
        total = torch.zeros((), device=self.device)
        for number, share in enumerate(shares, 1):
            with nullcontext() if number == len(shares) else self.no_sync():
                loss = F.cross_entropy(self.model(*share.inputs), share.labels)
                loss = loss * (len(share) / rows)  # parts need not be equally large
                self.backward(loss)
            total += loss.detach()
        self.update()
        return self.average(total)

    def share(self, batch: Batch) -> Batch:
        """The rows of the global batch that this rank computes."""
        return batch.share(self.rank, self.ranks)

    def no_sync(self) -> AbstractContextManager:
        """Within it, gradients are added up here and not sent."""
        return self.model.no_sync()

    def zero_grad(self) -> None:
        """Forget the gradients of the step before."""
        self.optimizer.zero_grad()

    def backward(self, loss: torch.Tensor) -> None:
        """Compute the gradients; where the strategy sends them, it does so meanwhile."""
        loss.backward()

    def update(self) -> None:
        """Let the optimizer change the parameters."""
        self.optimizer.step()

    def average(self, value: torch.Tensor) -> torch.Tensor:
        """The mean of `value` over the ranks, in place and returned."""
        dist.all_reduce(value)
        return value.div_(self.ranks)

    def held(self) -> dict[str, dict[int, int]]:
        """Storages of this rank, address and bytes, of each of `strategies.memory.PARTS`.

        Of gradients, those that the last step left.
        """
        parameters = list(self.model.parameters())
        return {
            "parameters": storages(parameters),
            "gradients": storages(p.grad for p in parameters),
            "state": storages(moments(self.optimizer)),
            "buffers": self.traffic.buckets if self.traffic else {},
        }

    def close(self) -> None:
        """Give back what the strategy keeps outside of the model; on all ranks."""


def moments(optimizer: Optimizer) -> list[torch.Tensor]:
    """Tensors of an optimizer's state as large as a parameter: not the number of the step."""
    each = (value for state in optimizer.state.values() for value in state.values())
    return [value for value in each if isinstance(value, torch.Tensor) and value.dim()]


def storages(tensors: Iterable[torch.Tensor | None]) -> dict[int, int]:
    """Address and bytes of each storage under `tensors`; of a DTensor, what lies on this rank."""
    found = {}
    for tensor in tensors:
        if tensor is not None:
            local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
            storage = local.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return found
