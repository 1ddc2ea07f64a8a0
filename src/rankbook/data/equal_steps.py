"""Batches in step: every rank gets as many as the one with the most, epoch after epoch."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

IGNORED = -100  # a label that cross_entropy leaves out, as transformers' models do
Batch = dict[str, torch.Tensor]


class EqualStepsLoader:
    """The batches of `loader`, for ever: all ranks begin and end each epoch together.

    Shares of equal bytes do not hold equally many lines, so one rank runs out of batches before
    another. It then gets batches in which every label is -100: a loss that is a sum over tokens,
    divided by the number of tokens on all ranks, is the same with and without them. Nothing is
    dropped, and nothing is read twice.

    loader: gives dicts of tensors (samples, tokens), ``labels`` among them. Its ``set_epoch``, or
    that of its dataset, is called with 0, 1, 2 ... if there is one. ended: called on every rank
    after an epoch, with its number and how many samples all ranks had. In every step the ranks
    add up one number, and each of them waits for the sum.

    `state_dict` says where the batch that was given last stands; with `load_state_dict`, the next
    iterator begins behind it, on the same number of ranks: it reads the epoch again up to there.

    Raises ValueError, on all ranks, if no rank has a single batch.
    """

    def __init__(
        self,
        loader: DataLoader,
        device: torch.device,
        ended: Callable[[int, int], None] = lambda epoch, samples: None,
    ):
        self.loader, self.device, self.ended = loader, device, ended
        self._start = self._position = {"epoch": 0, "given": 0}

    def state_dict(self) -> dict[str, int]:
        """The epoch, and how many batches of it this rank has got."""
        return self._position

    def load_state_dict(self, position: dict[str, int]) -> None:
        """Begin behind `position` the next time; on all ranks."""
        self._start = self._position = dict(position)

    def __iter__(self) -> Iterator[Batch]:
        whose: Any = self.loader if hasattr(self.loader, "set_epoch") else self.loader.dataset
        set_epoch = getattr(whose, "set_epoch", lambda epoch: None)
        skip = self._start["given"]
        for epoch in itertools.count(self._start["epoch"]):
            set_epoch(epoch)
            batches, total = self._epoch(), 0
            # a loader that begins draws a number: what is skipped has drawn it before
            with torch.random.fork_rng([], enabled=skip > 0):
                total += sum(samples for samples, _ in itertools.islice(batches, skip))
            for given, (samples, batch) in enumerate(batches, skip + 1):
                total += samples
                self._position = {"epoch": epoch, "given": given}
                yield batch
            if total == 0:
                raise ValueError("the loader gives no batch on any rank: its data set is empty")
            self.ended(epoch, total)
            skip = 0

    def _epoch(self) -> Iterator[tuple[int, Batch]]:
        """For each step: how many samples all ranks have in it, and this rank's batch."""
        batches = iter(self.loader)
        while True:
            batch = next(batches, None)
            samples = self._sum(0 if batch is None else len(batch["labels"]))
            if samples == 0:
                return
            yield samples, _nothing(self.device) if batch is None else batch

    def _sum(self, number: int) -> int:
        if not dist.is_initialized():
            return number
        on_device = torch.tensor(number, device=self.device)
        dist.all_reduce(on_device)
        return int(on_device)


def _nothing(device: torch.device) -> Batch:
    """A batch of one sample, of two tokens, that nothing can be learnt from."""
    ids = torch.zeros(1, 2, dtype=torch.int64, device=device)
    mask, labels = torch.ones_like(ids), torch.full_like(ids, IGNORED)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}
