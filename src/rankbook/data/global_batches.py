"""Batches that are a function of the seed and the position, not of who is there.

The global batch of a step is a fixed set of samples. The ranks only share it out, so that any
number of ranks, on any day, trains on the same samples in the same steps.
"""

import signal
import warnings
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import Dataset, Sampler, default_collate

if TYPE_CHECKING:
    from torchdata.stateful_dataloader import StatefulDataLoader


class GlobalBatches(Sampler[list[int]]):
    """This rank's share of every global batch: an endless batch sampler with a global position.

    samples: how many the set has; they are numbered from 0, and shuffled anew each epoch. batch:
    samples in a global batch; the last one of an epoch is smaller where they do not divide, so each
    epoch has every sample exactly once. Shares are as even as possible, and empty where there are
    more ranks than samples. The position knows neither ranks nor loader workers. Raises ValueError
    for a number out of range.
    """

    def __init__(
        self, samples: int, batch: int, *, seed: int = 0, rank: int = 0, world_size: int = 1
    ):
        for name, number in (("samples", samples), ("batch", batch), ("world_size", world_size)):
            if number < 1:
                raise ValueError(f"GlobalBatches: {name} is {number}; it has to be 1 or more")
        if not 0 <= rank < world_size:
            raise ValueError(
                f"GlobalBatches: rank {rank} of {world_size}: it has to be 0 to {world_size - 1}"
            )
        self.samples, self.batch, self.seed = samples, batch, seed
        self.rank, self.world_size = rank, world_size
        self.epoch = self.sample = 0

    @property
    def per_epoch(self) -> int:
        """How many global batches an epoch has."""
        return -(-self.samples // self.batch)

    def __iter__(self) -> "_Shares":
        return _Shares(self)

    def state_dict(self) -> dict[str, int]:
        """The position: `sample` samples of `epoch` are done; and of which set, in which order."""
        return {
            "epoch": self.epoch,
            "sample": self.sample,
            "samples": self.samples,
            "seed": self.seed,
        }

    def load_state_dict(self, position: Mapping[str, int]) -> None:
        """Go on at `position`, which any number of ranks may have left.

        Raises ValueError where it cannot be meant: it is of other data, or beyond the epoch.
        """
        for name, own in (("samples", self.samples), ("seed", self.seed)):
            if position.get(name, own) != own:
                raise ValueError(
                    f"the position is of a run with {name} {position[name]}, and this one has "
                    f"{own}: the order of the samples is another"
                )
        epoch, sample = position["epoch"], position["sample"]
        if epoch < 0 or not 0 <= sample <= self.samples:
            raise ValueError(
                f"sample {sample} of epoch {epoch} is no position among {self.samples} samples"
            )
        self.epoch, self.sample = _next_epoch(epoch, sample, self.samples)


class _Shares(Iterator[list[int]]):
    """One walk through the shares; each has its own position, as loaders begin several."""

    def __init__(self, batches: GlobalBatches):
        self.of = batches
        self.epoch, self.sample = batches.epoch, batches.sample
        self.order, self.order_of = torch.empty(0, dtype=torch.long), -1

    def __next__(self) -> list[int]:
        of = self.of
        if self.order_of != self.epoch:
            self.order, self.order_of = _order(of.samples, of.seed, self.epoch), self.epoch
        whole = self.order[self.sample : self.sample + of.batch]
        first, end = (len(whole) * n // of.world_size for n in (of.rank, of.rank + 1))
        self.epoch, self.sample = _next_epoch(self.epoch, self.sample + len(whole), of.samples)
        return whole[first:end].tolist()

    def state_dict(self) -> dict[str, int]:
        return self.of.state_dict() | {"epoch": self.epoch, "sample": self.sample}

    def load_state_dict(self, position: Mapping[str, int]) -> None:
        self.epoch, self.sample = position["epoch"], position["sample"]


def _next_epoch(epoch: int, sample: int, samples: int) -> tuple[int, int]:
    """The end of an epoch is the beginning of the next."""
    return (epoch + 1, 0) if sample == samples else (epoch, sample)


def _order(samples: int, seed: int, epoch: int) -> torch.Tensor:
    """The order of an epoch: known to every rank, whoever was there before."""
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {epoch}".encode()))
    return torch.randperm(samples, generator=generator)


def load_shares(
    dataset: Dataset, batches: GlobalBatches, workers: int = 0, **options: Any
) -> "StatefulDataLoader":
    """Load this rank's shares from where `batches` stands; without end.

    dataset: with samples that `batches` numbers. workers: processes that read ahead. An empty share
    is None. options: of torchdata's `StatefulDataLoader`. Raises ImportError where torchdata is not
    installed. Source: https://github.com/pytorch/data
    """
    from torchdata.stateful_dataloader import StatefulDataLoader

    own: dict[str, Any] = {
        "collate_fn": collate_share,
        "worker_init_fn": begin_worker,
        # a loader that begins draws a number: from its own generator, or dropout would be another
        # after a restart
        "generator": torch.Generator().manual_seed(batches.seed),
    }
    with warnings.catch_warnings():  # torchdata 0.11 calls what torch 2.13 calls deprecated
        warnings.filterwarnings("ignore", ".*set_vital.*")
        return StatefulDataLoader(
            dataset, batch_sampler=batches, num_workers=workers, **own | options
        )


def begin_worker(worker: int) -> None:
    """A loader process ends when it is told to, whatever its rank does with signals."""
    for each in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(each, signal.SIG_DFL)


def collate_share(samples: list) -> object:
    """The samples of a share as one batch, as PyTorch's loaders do; None if there are none."""
    return default_collate(samples) if samples else None


def position(loader: "StatefulDataLoader") -> dict[str, int]:
    """The global position behind the share that `loader` gave last, for `GlobalBatches`.

    Workers that read ahead are further already: the loader knows, for each share that it hands
    out, where the sampler stood. The rest of its own state is left behind, as it holds only for
    the same number of workers.
    """
    state = loader.state_dict()
    if "_snapshot" in state:  # with workers
        state = state["_snapshot"]["_main_snapshot"]
    return state["_sampler_iter_state"]
