"""The step that all strategies have in common, and the count of what DDP sends."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.optim import Optimizer

from rankbook.speed.batches import Batch


@dataclass
class Traffic:
    """What one rank handed to all_reduce: how often, and how many bytes together."""

    all_reduces: int = 0
    bytes: int = 0

    def reset(self) -> None:
        """Count from zero again."""
        self.all_reduces = self.bytes = 0


class OnRanks:
    """A model that all ranks train together; what differs between strategies is overridden.

    model: as the strategy wrapped it. `strategy`: its name. `traffic`: counted where DDP does the
    sending, otherwise None.
    """

    strategy = ""
    traffic: Traffic | None = None

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
