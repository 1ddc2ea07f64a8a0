"""Texts of uneven length as batches: three ways to pad them, and one that does not."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from rankbook.models.classifier import ClassifierConfig
from rankbook.speed.reviews import Reviews

WAYS = ("longest of all", "longest of batch", "bucketed", "packed")
POOL = 50  # batches: "bucketed" sorts this many at a time, so that their order stays random


@dataclass(frozen=True, eq=False)
class Batch:
    """Texts that are computed together; ``model(*batch.inputs)`` is right for every kind.

    Padded: ids (rows, length) and mask, True where they are real tokens. Packed: ids (tokens,)
    and offsets (rows + 1,) int32. labels and samples, the texts' places in their split, have
    shape (rows,). longest: the tokens of the longest row, with its padding. tokens: the real ones.
    """

    ids: Tensor
    labels: Tensor
    samples: Tensor
    longest: int
    tokens: int
    mask: Tensor | None = None
    offsets: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def inputs(self) -> tuple[Tensor, Tensor | None, Tensor | None, int]:
        """The arguments of `rankbook.models.Classifier`."""
        return self.ids, self.mask, self.offsets, self.longest

    @property
    def computed(self) -> int:
        """The tokens that are computed: with padding."""
        return self.ids.numel()

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Batch":
        """The batch on `device`."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "Batch":
        """The batch in memory that a GPU can fetch from by itself; the DataLoader calls this."""
        return self._each(Tensor.pin_memory)

    def share(self, rank: int, world_size: int) -> "Batch":
        """Rows `rank`, `rank` + `world_size`, ...: the part of one rank, of the same kind.

        Padding stays as long as in the whole batch. Raises ValueError if ranks would get unequal
        parts: the mean of their losses would not be the batch's.
        """
        if len(self) % world_size:
            raise ValueError(
                f"a batch of {len(self)} texts cannot be shared by {world_size} ranks equally; "
                "choose a batch, and a number of samples, that the ranks divide"
            )
        return self.rows(range(rank, len(self), world_size))

    def split(self, parts: int) -> "list[Batch]":
        """At most `parts` smaller batches, in the order of the rows."""
        return [self.rows(rows.tolist()) for rows in torch.arange(len(self)).chunk(parts)]

    def rows(self, rows: range | list[int]) -> "Batch":
        """Some of the rows as a batch of the same kind; cheap on the host, slow on a GPU."""
        index = torch.tensor(rows)
        labels, samples = self.labels[index], self.samples[index]
        if self.offsets is None:
            assert self.mask is not None  # a batch is padded or packed
            ids, mask = self.ids[index], self.mask[index]
            return Batch(ids, labels, samples, self.longest, int(mask.sum()), mask)
        texts = self.ids.split(self.offsets.diff().tolist())
        return _packed([texts[row] for row in rows], labels, samples)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        names = ("ids", "labels", "samples", "mask", "offsets")
        tensors = {name: getattr(self, name) for name in names}
        return replace(self, **{k: change(v) for k, v in tensors.items() if v is not None})


def make_batch(reviews: Reviews, samples: list[int], way: str, longest: int | None = None) -> Batch:
    """The reviews `samples` as one batch, `way` one of `WAYS`.

    longest: what "longest of all" pads to, that of all the reviews if None. Raises ValueError.
    """
    _check_way(way)
    texts = [reviews.text(i) for i in samples]
    index = torch.tensor(samples)
    labels, lengths = reviews.labels[index], reviews.lengths[index]
    if way == "packed":
        return _packed(texts, labels, index)
    length = int(lengths.max())
    if way == "longest of all":
        length = int(reviews.lengths.max()) if longest is None else longest
    # to the batch's longest first, then further; 0 is [PAD] in all vocabularies of this book
    ids = pad_sequence(texts, batch_first=True).long()
    ids = torch.nn.functional.pad(ids, (0, length - ids.shape[1]))
    mask = torch.arange(length) < lengths[:, None]
    return Batch(ids, labels, index, length, int(lengths.sum()), mask)


def _packed(texts: list[Tensor], labels: Tensor, samples: Tensor) -> Batch:
    lengths = torch.tensor([0, *(len(text) for text in texts)])
    offsets = lengths.cumsum(0).int()
    ids = torch.cat(texts).long()
    return Batch(ids, labels, samples, int(lengths.max()), len(ids), offsets=offsets)


class Order:
    """Which samples share a batch, and in what order batches come: the DataLoader's batch sampler.

    Every sample is in one batch of an epoch; the last batch of the samples may be smaller. With
    `shuffle` the order is a function of seed and epoch: random, and the same for all ways but
    "bucketed", which sorts `pool` batches at a time by length, and shuffles them. Without it,
    the order is that of the file, and of the lengths, longest first, for "bucketed".
    """

    def __init__(
        self,
        lengths: Tensor,
        way: str,
        batch: int,
        seed: int = 0,
        shuffle: bool = True,
        pool: int = POOL,
    ):
        _check_way(way)
        for name, value in (("batch", batch), ("pool", pool)):
            if value < 1:
                raise ValueError(f"{name} is {value}; it must be 1 or more")
        self.lengths, self.way, self.batch, self.pool = lengths, way, batch, pool
        self.seed, self.shuffle, self.epoch = seed, shuffle, 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next pass."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch)

    def __iter__(self) -> Iterator[list[int]]:
        return (samples.tolist() for samples in self.batches())

    def batches(self) -> list[Tensor]:
        """The samples of each batch of this epoch."""
        generator = torch.Generator().manual_seed(zlib.crc32(f"{self.seed} {self.epoch}".encode()))
        count = len(self.lengths)
        order = torch.randperm(count, generator=generator) if self.shuffle else torch.arange(count)
        if self.way != "bucketed":
            return list(order.split(self.batch))
        chunks = order.split(self.pool * self.batch if self.shuffle else count)
        longest_first = [
            chunk[self.lengths[chunk].argsort(descending=True, stable=True)] for chunk in chunks
        ]
        batches = [part for chunk in longest_first for part in chunk.split(self.batch)]
        if self.shuffle:
            batches = [batches[i] for i in torch.randperm(len(batches), generator=generator)]
        return batches


def loader(
    reviews: Reviews,
    way: str,
    batch: int,
    *,
    seed: int = 0,
    shuffle: bool = True,
    workers: int = 0,
    pin_memory: bool = False,
) -> DataLoader:
    """A DataLoader of `Batch`; ``loader.batch_sampler`` is an `Order`, with its `set_epoch`.

    workers: processes that make batches ahead; 0 makes them here, when they are asked for.
    pin_memory: only where there is a GPU to fetch from it. Raises ValueError.
    """
    order = Order(reviews.lengths, way, batch, seed, shuffle)
    longest = int(reviews.lengths.max())
    return DataLoader(
        # the samples are their own numbers; collating makes the batch
        cast(Dataset, range(len(reviews))),
        batch_sampler=order,
        collate_fn=partial(_collate, reviews, way, longest),
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=pin_memory and torch.cuda.is_available(),
        # a generator of its own: left alone, it draws from the one that dropout uses
        generator=torch.Generator(),
    )


def _collate(reviews: Reviews, way: str, longest: int, samples: list[int]) -> Batch:
    return make_batch(reviews, samples, way, longest)


@dataclass(frozen=True)
class Padding:
    """What padding adds: `tokens` are real, `computed` with padding, and the FLOP of both.

    Of the FLOP, those of attention's two products, which grow with the square, also by themselves.
    """

    tokens: int
    computed: int
    real_flop: float
    flop: float
    real_attention: float
    attention: float

    @property
    def token_ratio(self) -> float:
        """Computed tokens for each real one."""
        return self.computed / self.tokens

    @property
    def arithmetic_ratio(self) -> float:
        """Computed FLOP for each that the real tokens need, attention's square included."""
        return self.flop / self.real_flop


def padding(
    lengths: Tensor,
    way: str,
    batch: int,
    *,
    config: ClassifierConfig | None = None,
    seed: int = 0,
    epoch: int = 0,
    pool: int = POOL,
) -> Padding:
    """What one epoch of batches costs, computed from the texts' lengths (samples,) alone.

    config: the model whose arithmetic is counted, DistilBERT if None. With IMDB's lengths in
    DistilBERT's tokens, 273 on average, padding to 512 makes 1.88 tokens of one, but 1.94 times
    the arithmetic, as attention grows with the square of the length. Raises ValueError.
    """
    config = config or ClassifierConfig()
    order = Order(lengths, way, batch, seed, pool=pool)
    order.set_epoch(epoch)
    padded = lengths.clone()
    if way == "longest of all":
        padded[:] = lengths.max()
    elif way != "packed":
        for samples in order.batches():
            padded[samples] = lengths[samples].max()
    whole = (float(config.forward_flop(x).sum()) for x in (lengths, padded))
    attention = (float(config.attention_flop(x).sum()) for x in (lengths, padded))
    return Padding(int(lengths.sum()), int(padded.sum()), *whole, *attention)


def _check_way(way: str) -> None:
    if way not in WAYS:
        raise ValueError(f"batching {way!r} is unknown; use one of: {', '.join(WAYS)}")
