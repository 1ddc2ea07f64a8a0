"""Who reads which sample in an epoch, by the way the data are shared out: computed, not run.

tests/unit/book/test_moving_readers.py runs the loaders of PyTorch for comparison.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from torch.utils.data import DistributedSampler

from rankbook.data.blocks import bounds
from rankbook.data.sharding import Reader

STREAMS = ("nobody", "by rank", "by worker", "by both")  # how an iterable data set divides itself
FILES = ("rounded up", "by bytes")  # the lines of a text file: CeilSplitLines and ShardedLines
INDEXED = ("no sampler", "sampler")  # a data set with an index; the second: DistributedSampler
WAYS = (*STREAMS, *INDEXED, *FILES)


@dataclass(frozen=True)
class Job:
    """Ranks and their loaders. drop_last: the loader's; with "sampler", that of the sampler.

    epoch: what ``set_epoch`` was told. workers: loader workers a rank; 0: it reads for itself.
    """

    ranks: int = 2
    workers: int = 2
    batch_size: int = 2
    drop_last: bool = False
    shuffle: bool = False
    epoch: int = 0


@dataclass
class Share:
    """What one reader reads, in its order, in how many batches, and what it drops at the end.

    Samples are numbers from 0; behind the last stand those that are not in the set.
    """

    read: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    batches: int = 0


def shares(way: str, total: int, job: Job) -> dict[Reader, Share]:
    """The share of each reader of `job`, of `total` samples or lines.

    way: one of WAYS. The file of FILES has the line "0", the line "1" and so on. Raises ValueError
    for another way, and for "rounded up" without workers, with which `CeilSplitLines` fails.
    """
    if way not in WAYS:
        raise ValueError(f"shares: {way!r} is unknown; use one of {', '.join(WAYS)}")
    if way == "rounded up" and not job.workers:
        raise ValueError("shares: CeilSplitLines fails in a loader without workers")
    if way in INDEXED:
        return _indexed(way, total, job)
    return {reader: _batched(_of(way, total, reader), job) for reader in _readers(job)}


def _readers(job: Job) -> list[Reader]:
    workers = max(1, job.workers)
    return [Reader(r, job.ranks, w, workers) for r in range(job.ranks) for w in range(workers)]


def _of(way: str, total: int, reader: Reader) -> list[int]:
    """The samples of one reader of a stream or a file, in order."""
    if way == "rounded up":
        share = math.ceil(total / reader.count)
        return list(range(reader.index * share, (reader.index + 1) * share))
    if way == "by bytes":
        return _lines(total, reader)
    first, step = {
        "nobody": (0, 1),
        "by rank": (reader.rank, reader.world_size),
        "by worker": (reader.worker, reader.workers),
        "by both": (reader.index, reader.count),
    }[way]
    return list(range(first, total, step))


def _lines(total: int, reader: Reader) -> list[int]:
    """The lines that begin in this reader's part of the file: a small one has a part a reader."""
    starts = [sum(len(f"{i}\n") for i in range(line)) for line in range(total + 1)]
    start, end = bounds(reader.index, reader.count, starts[total])
    return [line for line in range(total) if start <= starts[line] < end]


def _batched(samples: list[int], job: Job) -> Share:
    """One reader's samples as its loader gives them: `drop_last` drops an incomplete batch."""
    kept = len(samples) - len(samples) % job.batch_size if job.drop_last else len(samples)
    return Share(samples[:kept], samples[kept:], math.ceil(kept / job.batch_size))


def _indexed(way: str, total: int, job: Job) -> dict[Reader, Share]:
    """A rank's batches go to its workers in turn."""
    found = {reader: Share() for reader in _readers(job)}
    workers, size = max(1, job.workers), job.batch_size
    for rank in range(job.ranks):
        whole = Share(list(range(total)))
        if way == "no sampler":
            whole = _batched(whole.read, job)
        else:
            data: Any = range(total)  # a sampler asks for no more than its length
            sampler = DistributedSampler(
                data, job.ranks, rank, job.shuffle, drop_last=job.drop_last
            )
            sampler.set_epoch(job.epoch)
            whole.read = list(sampler)
        for number, start in enumerate(range(0, len(whole.read), size)):
            share = found[Reader(rank, job.ranks, number % workers, workers)]
            share.read += whole.read[start : start + size]
            share.batches += 1
        last = found[Reader(rank, job.ranks, len(whole.read) // size % workers, workers)]
        last.dropped += whole.dropped
    return found
