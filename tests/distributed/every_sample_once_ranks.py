"""What the ranks of test_every_sample_once_chapter.py do; everything returned is plain."""

import itertools
from collections.abc import Callable, Iterable, Iterator

import datasets
import torch
import torch.distributed as dist
from datasets.distributed import split_dataset_by_node
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, get_worker_info
from torchdata import nodes
from torchdata.stateful_dataloader import StatefulDataLoader

from rankbook.data import (
    CeilSplitLines,
    Reader,
    collate_with_reader,
    gather_audit,
    samples_by_reader,
)

SAMPLES = list(range(11))


class Numbers(IterableDataset):
    """0 to 10; `divide` gives this reader's number, and how many there are."""

    def __init__(self, divide: Callable[[], tuple[int, int]]):
        self.divide = divide

    def __iter__(self) -> Iterator[int]:
        first, step = self.divide()
        return iter(range(first, 11, step))


class Shuffled(IterableDataset):
    """0 to 10 by epoch, which is what `set_epoch` makes of it: a number, or in shared memory."""

    def __init__(self, shared: bool):
        self.shared, self.epoch = shared, torch.zeros(1, dtype=torch.int64)
        if shared:
            self.epoch.share_memory_()

    def set_epoch(self, epoch: int) -> None:
        if self.shared:
            self.epoch.fill_(epoch)
        else:
            self.epoch = torch.tensor([epoch])

    def __iter__(self) -> Iterator[int]:
        drawn = torch.Generator().manual_seed(int(self.epoch))
        order = torch.randperm(11, generator=drawn).tolist()
        here = Reader.here()
        return iter(order[here.index :: here.count])


def forked(workers: int) -> dict:
    return {"num_workers": workers} | ({"multiprocessing_context": "fork"} if workers else {})


def audit(dataset, workers: int, total=11, **options) -> list:
    """[once, twice, more, never, others] over all ranks and workers."""
    options = {"batch_size": 2, "collate_fn": collate_with_reader} | forked(workers) | options
    return counts(gather_audit(samples_by_reader(DataLoader(dataset, **options)), total))


def counts(found) -> list[int]:
    return [found.once, found.twice, found.more, found.never, found.extra]


def by_rank():
    return dist.get_rank(), dist.get_world_size()


def by_worker():
    worker = get_worker_info()
    return (worker.id, worker.num_workers) if worker else (0, 1)


def by_reader():
    here = Reader.here()
    return here.index, here.count


def row_numbers(batch: list[dict]):
    return collate_with_reader([row["i"] for row in batch])


def loaders(workers: int) -> dict[str, list]:
    """What each way to share out gives, in one epoch."""
    rank = dist.get_rank()
    table = datasets.Dataset.from_dict({"i": SAMPLES})

    def stream(shards, split=True):
        data = table.to_iterable_dataset(num_shards=shards)
        return split_dataset_by_node(data, rank, 2) if split else data

    def sampled(**options):
        sampler = DistributedSampler(SAMPLES, shuffle=False, **options)
        return audit(SAMPLES, workers, sampler=sampler)

    found = {
        "no sampler": audit(SAMPLES, workers),
        "padded": sampled(),
        "drop_last": sampled(drop_last=True),
        "not shared": audit(Numbers(lambda: (0, 1)), workers),
        "by rank": audit(Numbers(by_rank), workers),
        "by worker": audit(Numbers(by_worker), workers),
        "by reader": audit(Numbers(by_reader), workers),
        "by reader, drop_last": audit(Numbers(by_reader), workers, drop_last=True),
        "not split": audit(stream(4, split=False), workers, collate_fn=row_numbers),
        "4 shards": audit(stream(4), workers, collate_fn=row_numbers),
        "3 shards": audit(stream(3), workers, collate_fn=row_numbers),
    }
    return found | {name: interrupted(make, workers) for name, make in LOADERS.items()}


def stateful(workers: int):
    sampler = DistributedSampler(SAMPLES, seed=0)
    options = {"sampler": sampler, "collate_fn": list} | forked(workers)
    return StatefulDataLoader(SAMPLES, 2, **options)


def by_nodes(workers: int):
    node = nodes.SamplerWrapper(DistributedSampler(SAMPLES, seed=0))
    node = nodes.ParallelMapper(node, SAMPLES.__getitem__, workers, method="thread")
    return nodes.Loader(nodes.Batcher(node, 2, drop_last=False))


LOADERS = {"StatefulDataLoader": stateful, "nodes": by_nodes}


def flat(batches: Iterable[list]) -> list:
    return list(itertools.chain.from_iterable(batches))


def interrupted(make, workers: int) -> list:
    """Stopped after a batch: resumed as without a stop? The counts resumed, and started afresh."""
    first, resumed = make(workers), make(workers)
    before = next(iter(first))
    resumed.load_state_dict(first.state_dict())
    rest, whole = flat(resumed), flat(make(workers))
    afresh = gather_audit(before + whole, 11)
    return [before + rest == whole, counts(gather_audit(before + rest, 11)), counts(afresh)]


def epochs() -> dict:
    """What DistributedSampler gives in ten epochs, with set_epoch and without; what nodes does."""
    found = {}
    for remember in (False, True):
        sampler, orders = DistributedSampler(SAMPLES, seed=0, drop_last=True), []
        for epoch in range(10):
            if remember:
                sampler.set_epoch(epoch)
            orders.append(list(sampler))
        never = gather_audit(flat(orders), 11).never
        found[remember] = [all(order == orders[0] for order in orders), never]
    loader = by_nodes(0)
    found["nodes"] = flat(loader) != flat(loader)
    everything = nodes.Loader(nodes.IterableWrapper(range(11)))
    found["IterableWrapper"] = counts(gather_audit(list(everything), 11))
    return found


def datasets_traps() -> dict:
    """Rows read of whole shards and of three; what shuffling with different seeds does."""
    rank, read = dist.get_rank(), []

    def rows(shards, of):
        for shard in shards:
            for i in range(shard, 11, of):
                read.append(i)
                yield {"i": i}

    found = {}
    for of in (4, 3):
        options = {"shards": list(range(of)), "of": of}
        data = datasets.IterableDataset.from_generator(rows, gen_kwargs=options)
        data = split_dataset_by_node(data, rank, 2)
        read.clear()
        found[of] = [len(list(data)), len(read)]
    table = datasets.Dataset.from_dict({"i": SAMPLES}).to_iterable_dataset(num_shards=4)
    for name, seed in (("seeds", rank), ("seed", 0)):
        data = split_dataset_by_node(table.shuffle(seed=seed, buffer_size=4), rank, 2)
        found[name] = counts(gather_audit([row["i"] for row in data], 11))
    return found


def ceil_split(path: str) -> dict:
    """The original's way, on a file of 9 lines: one round, and ten."""
    lines = [str(i) for i in range(9)]
    found = {}
    for rounds in (1, 10):
        dataset = CeilSplitLines(path, 9, *by_rank(), rounds)
        loader = DataLoader(dataset, 3, collate_fn=collate_with_reader, **forked(2))
        seen = gather_audit(samples_by_reader(loader), lines)
        found[rounds] = [seen.by_reader[name] for name in sorted(seen.by_reader)]
    try:
        list(itertools.islice(DataLoader(dataset), 1))
    except AttributeError as error:
        found["no workers"] = str(error)
    return found


def stayed(shared: bool) -> list[list[int]]:
    """Three epochs by workers that stay, with `set_epoch` before each."""
    dataset, found = Shuffled(shared), []
    options = forked(2) | {"persistent_workers": True, "collate_fn": list}
    loader = DataLoader(dataset, 2, **options)
    for epoch in range(3):
        dataset.set_epoch(epoch)
        found.append(flat(loader))
    return found


def reading(path: str) -> dict:
    return {
        0: loaders(0), 2: loaders(2), "epochs": epochs(), "datasets": datasets_traps(),
        "ceil": ceil_split(path), "stayed": [stayed(False), stayed(True)],
    }  # fmt: skip
