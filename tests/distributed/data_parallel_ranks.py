"""What the ranks of test_data_parallel_chapter.py do; everything returned is plain."""

import itertools
from collections.abc import Iterable

import datasets
import torch
import torch.distributed as dist
from datasets.distributed import split_dataset_by_node
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from torchdata import nodes
from torchdata.stateful_dataloader import StatefulDataLoader

from rankbook.data import Reader, collate_with_reader, gather_audit, samples_by_reader
from rankbook.parallel import OverlapRecorder
from tests.distributed.data_parallel_readers import CeilSplit, Numbers

WHOLE = slice(None)
SAMPLES = list(range(11))
MIB = 2**20


def model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))


def batch(step: int, rows: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(rows, 16, generator=torch.Generator().manual_seed(step))
    return x, x[:, :4].sin()


def mine() -> slice:
    return slice(4 * dist.get_rank(), 4 * dist.get_rank() + 4)


def gradients(of: nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in of.parameters()])


def values(of: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(of.parameters()).detach()


def off(a: torch.Tensor, b: torch.Tensor) -> float:
    return (a - b).abs().max().item()


def apart(tensor: torch.Tensor) -> float:
    everyone = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, tensor)
    return max(off(tensor, other) for other in everyone)


def combine(of: nn.Module, divide: bool = True) -> None:
    for p in of.parameters():
        dist.all_reduce(p.grad)
        if divide:
            p.grad /= dist.get_world_size()


def trained(of: nn.Module, rows: slice, combine=lambda model: None, kind=torch.optim.SGD, lr=0.2):
    optimizer = kind(of.parameters(), lr=lr)
    for step in range(30):
        x, y = batch(step)
        optimizer.zero_grad()
        nn.functional.mse_loss(of(x[rows]), y[rows]).backward()
        combine(of)
        optimizer.step()
    return values(of)


def trainings() -> dict[str, list[float]]:
    """Each way to train: how far ranks are apart, and how far off from one process."""
    rank, summed = dist.get_rank(), lambda model: combine(model, divide=False)
    adam = {"kind": torch.optim.Adam, "lr": 0.01}
    control, adams = trained(model(), WHOLE), trained(model(), WHOLE, **adam)
    found = {
        "alone": trained(model(), mine()),
        "other start": trained(model(rank), mine(), combine),
        "only summed": trained(model(), mine(), summed),
        "by hand": trained(model(), mine(), combine),
        "DDP": trained(DDP(model(rank)), mine()),
    }
    results = {name: [apart(vector), off(vector, control)] for name, vector in found.items()}
    with_adam = trained(model(), mine(), summed, **adam)
    return results | {"Adam, only summed": [apart(with_adam), off(with_adam, adams)]}


def shares() -> dict[str, float]:
    """Gradients of 4 and 3 rows, by each way to weigh them: how far off from one process."""
    (x, y), rank = batch(0, rows=7), dist.get_rank()
    rows = slice(0, 4) if rank == 0 else slice(4, 7)
    mean, total = nn.MSELoss(), nn.MSELoss(reduction="sum")

    def weighted(output, target):
        return mean(output, target) * 2 * len(target) / len(x)

    def compared(loss_of, whole_loss, factor=1):
        ddp, whole = DDP(model()), model()
        loss_of(ddp(x[rows]), y[rows]).backward()
        whole_loss(whole(x), y).backward()
        return off(gradients(ddp) * factor, gradients(whole))

    return {
        "mean": compared(mean, mean),
        "weighted": compared(weighted, mean),
        "sum": compared(total, total),
        "sum, times 2": compared(total, total, factor=2),
    }


def normalised(kind: type) -> list[float]:
    """Gradient off from one process; the first buffer's difference between ranks, if any."""

    def layers():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(16, 32), kind(32), nn.Tanh(), nn.Linear(32, 4))

    (x, y), ddp, whole = batch(0), DDP(layers()), layers()
    nn.functional.mse_loss(ddp(x[mine()]), y[mine()]).backward()
    nn.functional.mse_loss(whole(x), y).backward()
    buffers = [apart(buffer) for buffer in ddp.buffers() if buffer.is_floating_point()]
    return [off(gradients(ddp), gradients(whole)), *buffers[:1]]


def sync_batch_norm() -> str:
    """What it says to a tensor on a CPU."""
    try:
        nn.SyncBatchNorm(4)(torch.randn(2, 4))
    except ValueError as error:
        return str(error)
    return ""


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = model()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.first(self.body(x))


def unused(**options) -> tuple[float, str]:
    """The first step's gradients: how far apart. What the second forward pass raises."""
    ddp, (x, y) = DDP(TwoHeads(), **options), batch(0)
    nn.functional.mse_loss(ddp(x[mine()]), y[mine()]).backward()
    difference = apart(ddp.module.first.weight.grad)
    try:
        ddp(x[mine()])
    except RuntimeError as error:
        return difference, str(error)
    return difference, ""


def steps() -> dict:
    return {
        "trainings": trainings(),
        "shares": shares(),
        "BatchNorm": normalised(nn.BatchNorm1d),
        "LayerNorm": normalised(nn.LayerNorm),
        "SyncBatchNorm": sync_batch_norm(),
        "unused": unused(),
        "find_unused": unused(find_unused_parameters=True),
    }


def deep() -> nn.Module:
    """Four layers of 1 MiB, without biases."""
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(4)))


def recorded(limit: int) -> dict:
    """Three backward passes under the recorder, and whether they changed anything."""
    plain, watched = (DDP(deep(), bucket_cap_mb=limit) for _ in range(2))
    recorder = OverlapRecorder(watched)
    x = torch.randn(8, 512, generator=torch.Generator().manual_seed(dist.get_rank()))
    passes, equal = [], True
    for _ in range(3):
        for each in (plain, watched):
            each.zero_grad()
        plain(x).square().mean().backward()
        loss = watched(x).square().mean()
        with recorder.backward():
            loss.backward()
        equal &= torch.equal(gradients(plain), gradients(watched))
        passes.append([plain_pass(each) for each in recorder.gather()])
    own, count = plain_pass(recorder.recorded(0)), recorder.passes
    watched(x).square().mean().backward()  # outside of the with block: not recorded
    assert recorder.passes == count
    return {"equal": equal, "passes": passes, "own": own, "errors": errors(recorder, watched)}


def plain_pass(each) -> dict:
    return each._asdict() | {
        "gradients": [list(ready) for ready in each.gradients],
        "buckets": [list(bucket) for bucket in each.buckets],
    }


def errors(recorder: OverlapRecorder, ddp: DDP) -> list[str]:
    found = []
    for attempt in (lambda: recorder.recorded(3), lambda: OverlapRecorder(ddp)):
        try:
            attempt()
        except (ValueError, RuntimeError) as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


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
        dataset = CeilSplit(path, 9, rounds, *by_rank())
        loader = DataLoader(dataset, 3, collate_fn=collate_with_reader, **forked(2))
        seen = gather_audit(samples_by_reader(loader), lines)
        found[rounds] = [seen.by_reader[name] for name in sorted(seen.by_reader)]
    try:
        list(itertools.islice(DataLoader(dataset), 1))
    except AttributeError as error:
        found["no workers"] = str(error)
    return found


def reading(path: str) -> dict:
    return {
        0: loaders(0), 2: loaders(2), "epochs": epochs(), "datasets": datasets_traps(),
        "ceil": ceil_split(path),
    }  # fmt: skip
