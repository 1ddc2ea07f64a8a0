"""One clock for whoever owns the loop: it starts when the loop has its first batch."""

from collections.abc import Iterable, Iterator, Sized
from typing import cast

import torch
from torch.utils.data import IterableDataset

from rankbook.core.timing import now
from rankbook.speed.batches import Batch


class Stopwatch(IterableDataset):
    """Batches that note when the first of them is there, and count what went through.

    What was made or wrapped before is off the clock. `stop` belongs behind the last step. A
    DataLoader takes it as a data set, a Trainer as it is (a list it would take for one loader
    each). `start`, `end`: of the clock, None before that. `samples`, `tokens`, `computed`: as in
    `rankbook.speed.loop.Pass`, of all passes together.
    """

    def __init__(self, batches: Iterable[Batch], device: torch.device | str = "cpu"):
        self.batches, self.device = batches, torch.device(device)
        self.start: float | None = None
        self.end: float | None = None
        self.samples = self.tokens = self.computed = 0

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.batches:
            if self.start is None:
                self.start = now(self.device)
            self.samples += len(batch)
            self.tokens += batch.tokens
            self.computed += batch.computed
            yield batch

    def __len__(self) -> int:
        return len(cast(Sized, self.batches))  # who asks takes a TypeError for no length

    def stop(self) -> None:
        """Wait until the device has done everything, and note the time."""
        self.end = now(self.device)

    @property
    def seconds(self) -> float:
        """From the first batch to `stop`. Raises RuntimeError before there are both."""
        if self.start is None or self.end is None:
            raise RuntimeError("the clock has no two ends: it needs a first batch, then stop()")
        return self.end - self.start
