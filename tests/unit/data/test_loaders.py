"""What each way of sharing out gives: samples once, twice, never, on 2 ranks with 0 or 2 workers.

A rank is what ``RANK`` says; the loaders' workers are real processes.
"""

import math

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, get_worker_info
from torchdata import nodes
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

from rankbook.data import (
    Reader,
    SampleAudit,
    ShardedLines,
    audit_samples,
    collate_with_reader,
    samples_by_reader,
)

RANKS, BATCH = 2, 2


def slow(*parameters):
    """With workers: each is forked, a copy of all that the unit tests have imported."""
    return pytest.param(*parameters, marks=pytest.mark.slow)


WORKERS = pytest.mark.parametrize("workers", [0, slow(2)])
SIZES = pytest.mark.parametrize("size", [11, 12])
LOADERS = pytest.mark.parametrize("loader", [DataLoader, StatefulDataLoader])
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata's


@pytest.fixture
def audit(monkeypatch):
    """Return a function that reads a dataset on each rank in turn, and counts."""

    def run(
        make, total, workers, loader=DataLoader, key=None, ranks=RANKS, **options
    ) -> SampleAudit:
        by_reader = {}
        monkeypatch.setenv("WORLD_SIZE", str(ranks))
        for rank in range(ranks):
            monkeypatch.setenv("RANK", str(rank))
            made = make(rank)
            if isinstance(made, torch.utils.data.Sampler):
                made, options["sampler"] = range(total), made
            each = loader(
                made,
                batch_size=BATCH,
                num_workers=workers,
                collate_fn=collate_with_reader,
                **options,
            )
            by_reader |= samples_by_reader(each, key)
        return audit_samples(by_reader, total)

    return run


def counts(audit: SampleAudit) -> tuple[int, int, int, int, int]:
    """Once, twice, more often, never; and what is not in the set."""
    return audit.once, audit.twice, audit.more, audit.never, audit.extra


def per_rank(audit: SampleAudit) -> list[int]:
    """How many samples each rank read."""
    ranks = {name.split(",")[0] for name in audit.by_reader}
    return [
        sum(len(read) for name, read in audit.by_reader.items() if name.split(",")[0] == rank)
        for rank in sorted(ranks)
    ]


@WORKERS
@LOADERS
@pytest.mark.parametrize("sampler", [DistributedSampler, StatefulDistributedSampler])
@pytest.mark.parametrize("shuffle", [False, True])
def test_samplers_pad_or_drop(audit, sampler, loader, workers, shuffle):
    def sampled(size: int, drop_last: bool) -> SampleAudit:
        def make(rank):
            return sampler(range(size), RANKS, rank, shuffle=shuffle, drop_last=drop_last)

        return audit(make, size, workers, loader)

    assert sampled(12, False).exactly_once and sampled(12, True).exactly_once
    padded, dropped = sampled(11, False), sampled(11, True)
    assert counts(padded) == (10, 1, 0, 0, 0) and per_rank(padded) == [6, 6]
    assert counts(dropped) == (10, 0, 0, 1, 0) and per_rank(dropped) == [5, 5]
    if not shuffle:
        assert padded.which(2) == [0] and dropped.which(0) == [10]


def test_one_sample_for_four_ranks(audit):
    def one(drop_last: bool) -> SampleAudit:
        def make(rank):
            return DistributedSampler(range(1), 4, rank, shuffle=False, drop_last=drop_last)

        return audit(make, 1, 0, ranks=4)

    assert counts(one(False)) == (0, 0, 1, 0, 0) and one(False).times == {0: 4}
    assert counts(one(True)) == (0, 0, 0, 1, 0)


class Numbers(IterableDataset):
    """0 to size - 1: of that every reader, or what `share` leaves it."""

    def __init__(self, size: int, share=lambda: slice(None)):
        self.size, self.share = size, share

    def __iter__(self):
        return iter(range(self.size)[self.share()])


def by_rank() -> slice:
    me = Reader.here()
    return slice(me.rank, None, me.world_size)


def by_reader() -> slice:
    me = Reader.here()
    return slice(me.index, None, me.count)


def test_an_iterable_nobody_shares_out(audit):
    assert counts(audit(lambda _: Numbers(12), 12, 0)) == (0, 12, 0, 0, 0)


@pytest.mark.slow
def test_an_iterable_that_four_workers_read(audit):
    everywhere = audit(lambda _: Numbers(12), 12, 2)
    assert counts(everywhere) == (0, 0, 12, 0, 0)
    assert set(everywhere.times.values()) == {4}  # ranks x workers


@pytest.mark.slow
def test_an_iterable_shared_out_over_ranks_only(audit):
    assert audit(lambda _: Numbers(12, by_rank), 12, 0).exactly_once
    assert counts(audit(lambda _: Numbers(12, by_rank), 12, 2)) == (0, 12, 0, 0, 0)


@WORKERS
@SIZES
def test_an_iterable_shared_out_over_readers(audit, workers, size):
    found = audit(lambda _: Numbers(size, by_reader), size, workers)
    assert found.exactly_once and per_rank(found) == [6, size - 6]


@pytest.mark.parametrize(
    ("size", "workers", "never"), [(12, 0, 0), (11, 0, 1), slow(12, 2, 4), slow(11, 2, 3)]
)
def test_drop_last_drops_a_batch_of_each_worker(audit, size, workers, never):
    found = audit(lambda _: Numbers(size, by_reader), size, workers, drop_last=True)
    assert counts(found) == (size - never, 0, 0, never, 0)


class CeilSplit(IterableDataset):
    """Shares out as the original does: equal numbers of lines, rounded up; one pass of it."""

    def __init__(self, path, size: int, world_size: int, rank: int):
        self.path, self.size, self.world_size, self.rank = path, size, world_size, rank

    def __iter__(self):
        info = get_worker_info()
        share = math.ceil(self.size / (self.world_size * info.num_workers))
        first = (self.rank * info.num_workers + info.id) * share
        with self.path.open() as file:
            for _ in range(first):
                file.readline()
            for _ in range(share):
                line = file.readline().strip()
                yield int(line) if line else ""


@pytest.mark.slow
@pytest.mark.parametrize(("size", "empty"), [(12, 0), (11, 1), (10, 2), (5, 3), (1, 3)])
def test_the_ceil_split_reads_behind_the_end(audit, tmp_path, size, empty):
    path = numbers(tmp_path, size)
    found = audit(lambda rank: CeilSplit(path, size, RANKS, rank), size, 2)
    assert counts(found) == (size, 0, 0, 0, empty)
    assert found.others == [""] * empty


def test_the_ceil_split_without_workers(audit, tmp_path):
    path = numbers(tmp_path, 12)
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'num_workers'"):
        audit(lambda rank: CeilSplit(path, 12, RANKS, rank), 12, 0)


def numbers(folder, size: int):
    path = folder / "numbers.txt"
    path.write_text("".join(f"{i}\n" for i in range(size)))
    return path


@WORKERS
@LOADERS
@pytest.mark.parametrize("shuffle", [False, True])
def test_sharded_lines(audit, tmp_path, workers, loader, shuffle):
    for size in (0, 1, 11, 12):
        path = numbers(tmp_path, size)
        found = audit(
            lambda _, p=path: ShardedLines(p, shuffle=shuffle), size, workers, loader, int
        )
        assert found.exactly_once, (size, str(found))


@pytest.fixture
def rows(monkeypatch):
    """Return a function that gives rows {"i": 0} and so on, as a ``datasets.Dataset``."""
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    from datasets import Dataset

    return lambda size: Dataset.from_dict({"i": list(range(size))})


def number(row: dict) -> int:
    return row["i"]


@WORKERS
@SIZES
def test_datasets_map_style(audit, rows, workers, size):
    from datasets.distributed import split_dataset_by_node

    dataset = rows(size)
    found = audit(lambda r: split_dataset_by_node(dataset, r, RANKS), size, workers, key=number)
    assert found.exactly_once and per_rank(found) == [6, size - 6]  # not padded: ranks differ


@WORKERS
@SIZES
@pytest.mark.parametrize("shards", [1, 2, 3, 4])
def test_datasets_iterable(audit, rows, workers, size, shards):
    from datasets.distributed import split_dataset_by_node

    stream = rows(size).to_iterable_dataset(shards)
    found = audit(lambda r: split_dataset_by_node(stream, r, RANKS), size, workers, key=number)
    assert found.exactly_once and per_rank(found) == [6, size - 6]
    rank0 = sorted(s for name, read in found.by_reader.items() if "rank 0" in name for s in read)
    # shards that can be dealt are; else each rank reads everything and keeps every second row
    assert (rank0 == list(range(0, size, 2))) == (shards % RANKS > 0)
    idle = workers and min(workers, shards // RANKS if shards % RANKS == 0 else shards)
    assert len(found.by_reader) == RANKS * max(1, idle)  # a worker without a shard ends


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 4])
def test_datasets_iterable_without_the_split(audit, rows, shards):
    stream = rows(12).to_iterable_dataset(shards)
    assert counts(audit(lambda _: stream, 12, 2, key=number)) == (0, 12, 0, 0, 0)


@SIZES
def test_nodes_are_shared_out_at_their_source(size):
    def audit_of(source, batch: int = BATCH, **options) -> SampleAudit:
        read = []
        for rank in range(RANKS):
            mapped = nodes.ParallelMapper(source(rank), lambda i: i, num_workers=2, method="thread")
            loader = nodes.Loader(nodes.Batcher(mapped, batch, **options))
            read.append([sample for made in loader for sample in made])
        return audit_samples(read, size)

    def sampled(rank):
        return nodes.SamplerWrapper(DistributedSampler(range(size), RANKS, rank, shuffle=False))

    def ranged(rank):
        return nodes.IterableWrapper(range(rank, size, RANKS))

    padded = (12, 0, 0, 0, 0) if size == 12 else (10, 1, 0, 0, 0)
    assert counts(audit_of(sampled, drop_last=False)) == padded
    assert audit_of(ranged, drop_last=False).exactly_once
    assert audit_of(lambda _: nodes.IterableWrapper(range(size)), drop_last=False).twice == size
    # a Batcher drops the last batch unless told otherwise: here two batches of 4 are left of all
    assert counts(audit_of(ranged, batch=4)) == (8, 0, 0, size - 8, 0)


@WORKERS
@pytest.mark.parametrize("sampler", [DistributedSampler, StatefulDistributedSampler])
def test_samplers_resume_in_the_middle(workers, sampler):
    """Two batches, a stop, and the rest by a new loader: once. The whole epoch again: twice."""

    def loader(rank: int) -> StatefulDataLoader:
        made = sampler(range(12), RANKS, rank, shuffle=True, seed=3)
        made.set_epoch(4)
        options = {"sampler": made, "num_workers": workers, "collate_fn": list}
        return StatefulDataLoader(range(12), batch_size=BATCH, **options)

    before, rest, again = [], [], []
    for rank in range(RANKS):
        first, resumed = loader(rank), loader(rank)
        batches = iter(first)
        before.append(next(batches) + next(batches))
        resumed.load_state_dict(first.state_dict())
        rest.append([sample for batch in resumed for sample in batch])
        again.append([sample for batch in loader(rank) for sample in batch])
    assert audit_samples([a + b for a, b in zip(before, rest, strict=True)], 12).exactly_once
    assert counts(audit_samples([a + b for a, b in zip(before, again, strict=True)], 12)) == (
        4,
        8,
        0,
        0,
        0,
    )


def test_nodes_resume_in_the_middle():
    def loader() -> nodes.Loader:
        sampler = StatefulDistributedSampler(range(12), RANKS, 1, shuffle=True)
        node = nodes.ParallelMapper(nodes.SamplerWrapper(sampler), lambda i: i, 2, method="thread")
        return nodes.Loader(nodes.Batcher(node, BATCH))

    first, resumed = loader(), loader()
    batches = iter(first)
    before = [next(batches), next(batches)]
    resumed.load_state_dict(first.state_dict())
    assert before + list(resumed) == list(loader())


@WORKERS
@pytest.mark.parametrize("every", [1, 3])
def test_lines_resume_in_the_middle(tmp_path, monkeypatch, workers, every):
    """Where a StatefulDataLoader stopped a new one goes on: in a window, and between two."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    path = numbers(tmp_path, 60)

    def loader() -> StatefulDataLoader:
        lines = ShardedLines(path, shuffle=True, block_size=16, window=2)
        options = {"batch_size": 3, "num_workers": workers, "collate_fn": list}
        return StatefulDataLoader(lines, snapshot_every_n_steps=every, **options)

    first = loader()
    first.dataset.set_epoch(5)
    states, batches = [], []
    for batch in first:
        batches.append(batch)
        states.append(first.state_dict())
    stops = range(len(batches) - 1) if workers == 0 else (0, 4, len(batches) - 2)
    for stop in stops:
        second = loader()  # its dataset stands at epoch 0
        second.load_state_dict(states[stop])
        assert list(second) == batches[stop + 1 :]


@WORKERS
def test_a_state_after_the_last_batch_begins_the_next_pass(tmp_path, workers):
    path = numbers(tmp_path, 12)

    def loader():
        lines = ShardedLines(path, shuffle=True)
        return StatefulDataLoader(lines, batch_size=2, num_workers=workers, collate_fn=list)

    first, second = loader(), loader()
    passes = []
    for epoch in range(2):
        first.dataset.set_epoch(epoch)
        passes.append(list(first))
        if epoch == 0:
            state = first.state_dict()
    second.load_state_dict(state)
    second.dataset.set_epoch(1)
    assert passes[0] != passes[1] == list(second)


def test_a_state_is_numbers_only(tmp_path):
    lines = ShardedLines(numbers(tmp_path, 12), shuffle=True)
    loader = StatefulDataLoader(lines, batch_size=2, collate_fn=list)
    next(iter(loader))
    torch.save(loader.state_dict(), tmp_path / "state")
    assert (tmp_path / "state").stat().st_size < 5000
    again = torch.load(tmp_path / "state", weights_only=True)
    loader.load_state_dict(again)
    assert len(list(loader)) == 5
