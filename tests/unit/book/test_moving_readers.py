"""`shares` against PyTorch's own loaders, and against the counts of the page."""

import itertools
from types import SimpleNamespace

import pytest
from bookext.moving_twins.readers import STREAMS, WAYS, Job, shares
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from rankbook.data import (
    CeilSplitLines,
    Reader,
    ShardedLines,
    audit_samples,
    ceil_split,
    sharding,
)
from rankbook.data.sample_audit import collate_with_reader, samples_by_reader


class Stream(IterableDataset):
    """Numbers that divide themselves in one of STREAMS."""

    def __init__(self, way: str, total: int, rank: int, ranks: int):
        self.way, self.total, self.rank, self.ranks = way, total, rank, ranks

    def __iter__(self):
        here = Reader.here(self.rank, self.ranks)
        first, step = {
            "nobody": (0, 1),
            "by rank": (here.rank, here.world_size),
            "by worker": (here.worker, here.workers),
            "by both": (here.index, here.count),
        }[self.way]
        return iter(range(first, self.total, step))


def loaded(monkeypatch, way: str, total: int, job: Job) -> dict[str, list]:
    """What real loaders give, rank after rank."""
    found = {}
    for rank in range(job.ranks):
        monkeypatch.setattr(sharding, "_rank_here", lambda rank=rank: (rank, job.ranks))
        options = {"drop_last": job.drop_last}
        data = Stream(way, total, rank, job.ranks) if way in STREAMS else range(total)
        if way == "sampler":
            sampler = DistributedSampler(
                data, job.ranks, rank, job.shuffle, drop_last=job.drop_last
            )
            sampler.set_epoch(job.epoch)
            options = {"sampler": sampler}
        loader = DataLoader(data, job.batch_size, num_workers=job.workers,
                            collate_fn=collate_with_reader, **options)  # fmt: skip
        found |= samples_by_reader(loader)
    return found


def sampler_of(rank: int, total: int, job: Job) -> DistributedSampler:
    sampler = DistributedSampler(
        range(total), job.ranks, rank, job.shuffle, drop_last=job.drop_last
    )
    sampler.set_epoch(job.epoch)
    return sampler


@pytest.mark.parametrize("way", [*STREAMS, "no sampler", "sampler"])
@pytest.mark.parametrize(
    "job",
    [
        Job(),
        Job(drop_last=True),
        Job(ranks=3, workers=0, drop_last=True),
        Job(ranks=1, batch_size=3, drop_last=True, shuffle=True, epoch=2),
    ],
)
def test_as_the_loaders_of_pytorch(monkeypatch, way, job):
    computed = {str(reader): share.read for reader, share in shares(way, 11, job).items()}
    real = loaded(monkeypatch, way, 11, job)
    assert {name: read for name, read in computed.items() if read} == real


@pytest.mark.parametrize(("ranks", "workers"), list(itertools.product((1, 2, 5), (1, 2, 4))))
@pytest.mark.parametrize("total", [1, 9, 24])
def test_as_the_readers_of_files(monkeypatch, tmp_path, ranks, workers, total):
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{i}\n" for i in range(total)), "utf-8")
    job = Job(ranks, workers)
    for reader, share in shares("rounded up", total, job).items():
        info = SimpleNamespace(id=reader.worker, num_workers=workers)
        monkeypatch.setattr(ceil_split, "get_worker_info", lambda info=info: info)
        lines = list(CeilSplitLines(path, total, reader.rank, ranks, rounds=1))
        assert lines == [str(i) if i < total else "" for i in share.read]
    for reader, share in shares("by bytes", total, job).items():
        assert list(ShardedLines(path).iterate(reader)) == [str(i) for i in share.read]


def counted(way: str, total: int, job: Job) -> list:
    read = shares(way, total, job).values()
    audit = audit_samples([share.read for share in read], total)
    return [audit.never, audit.once, audit.twice, audit.more, audit.extra]


def test_the_counts_of_the_page():
    assert counted("nobody", 11, Job()) == [0, 0, 0, 11, 0]
    assert counted("by rank", 11, Job()) == counted("by worker", 11, Job()) == [0, 0, 11, 0, 0]
    assert counted("by both", 11, Job(drop_last=True)) == [3, 8, 0, 0, 0]
    assert counted("no sampler", 11, Job()) == [0, 0, 11, 0, 0]
    assert counted("sampler", 11, Job()) == [0, 10, 1, 0, 0]
    assert counted("sampler", 11, Job(drop_last=True)) == [1, 10, 0, 0, 0]
    assert counted("rounded up", 9, Job()) == [0, 9, 0, 0, 3]
    assert counted("by bytes", 9, Job()) == [0, 9, 0, 0, 0]


def test_what_is_dropped_and_how_many_batches():
    found = list(shares("by both", 11, Job(drop_last=True)).values())
    assert [share.dropped for share in found] == [[8], [9], [10], []]
    assert [share.batches for share in found] == [1, 1, 1, 1]
    assert [share.batches for share in shares("by both", 11, Job()).values()] == [2, 2, 2, 1]
    (alone, other) = shares("no sampler", 11, Job(ranks=1, drop_last=True)).values()
    assert alone.dropped == [] and other.dropped == [10]


def test_every_way_names_every_reader():
    for way in WAYS:
        readers = list(shares(way, 3, Job(ranks=2, workers=3)))
        assert [reader.index for reader in readers] == list(range(6))


def test_refused():
    with pytest.raises(ValueError, match="'alone' is unknown; use one of nobody"):
        shares("alone", 3, Job())
    with pytest.raises(ValueError, match="fails in a loader without workers"):
        shares("rounded up", 3, Job(workers=0))
