"""What more ranks bring: throughput, hidden communication and memory against their number.

    python -m benchmarks.scaling --ranks 8

Writes book/results/scaling-cpu-2.json (2 is the number of cores), or scaling-gpu-N.json with nccl
where there is a GPU for each of N ranks. 1, 2, 4 ... ranks take turns in one run: those that have
no turn wait in a barrier. Memory is that of ranks started anew. Nothing else should run on the
machine meanwhile. With --keep FOLDER, a run that was cut off goes on with the parts that it has.
"""

import argparse
import gc
import math
import os
import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import psutil
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from benchmarks.harness import Here, about, interleaved, kept, most, on_ranks, slowest
from benchmarks.record import check_repeats, load_average, summary, write
from rankbook.parallel.replicas import OverlapRecorder

LAYERS = 8
WIDTH, WIDE = 512, 1024  # of the model that is timed, and of the one whose memory is measured
ROWS = 128  # of a batch: of each rank (weak scaling), or of all together (strong)
BUCKET = 2  # MiB: the most that DDP sends at once
WARM_UP = 3
KINDS = ("weak", "strong")
WAYS = ("DDP", "DDP, gradients in buckets", "ZeRO optimizer", "FSDP")
PARTS = ("parameters", "gradients", "state", "buckets")
WHAT = (
    f"Training steps (forward, backward, Adam) of {LAYERS} linear layers of width {WIDTH} in DDP "
    f"with buckets of at most {BUCKET} MiB, a thread a rank: milliseconds a step of the slowest "
    f"rank, weak scaling ({ROWS} rows on each rank) and strong ({ROWS} in all); the share of the "
    "communication that passes while gradients are still being computed, in per cent; and MiB that "
    f"a rank keeps after a step of the same model of width {WIDE}"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    options = parse(arguments)
    counts, more = up_to(options.ranks), machine(options.ranks)
    with tempfile.TemporaryDirectory() as folder:
        keep = options.keep or Path(folder)
        steps = (counts, options.repeats, options.steps)
        found = part(keep / f"steps-{options.ranks}", options.ranks, time_steps, *steps)
        memory = [
            {"way": way, "ranks": n} | part(keep / f"memory-{n}-{i}", n, measure_memory, way)
            for n in counts
            for i, way in enumerate(WAYS)
            if n > 1 or way == WAYS[0]
        ]
    rows = table(found) + [memory_row(each) for each in memory]
    more |= {"load": found["load"], "picture": picture(found, memory)}
    name = f"scaling-{more['kind'].lower()}-{more['devices']}"
    path = write(name, WHAT, rows, libraries=("torch", "psutil"), **more)
    print(*rows, path, sep="\n")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description="Time steps and weigh ranks, by their number.")
    parser.add_argument("--ranks", type=int, default=8, help="the most, a power of two (8)")
    parser.add_argument("--repeats", type=int, default=30, help="timed blocks of each kind (30)")
    parser.add_argument("--steps", type=int, default=4, help="of a block (4)")
    parser.add_argument("--keep", type=Path, help="a folder for finished parts, to go on with")
    options = parser.parse_args(arguments)
    check_ranks(parser, options.ranks)
    check_repeats(parser, options.repeats)
    if options.steps < 1:
        parser.error(f"--steps {options.steps} times nothing; use 1 or more")
    return options


def check_ranks(parser: argparse.ArgumentParser, ranks: int) -> None:
    """End the program with one sentence if `ranks` are not 2, 4, 8 ..."""
    if ranks < 2 or ranks & (ranks - 1):
        parser.error(f"--ranks {ranks}: it has to be 2, 4, 8 or another power of two")


def up_to(ranks: int) -> list[int]:
    """1, 2, 4 ... `ranks`."""
    return [2**k for k in range(ranks.bit_length())]


def machine(ranks: int) -> dict:
    """What `about` says, and how many GPUs or cores up to so many ranks have."""
    more = about(ranks, "auto")
    del more["ranks"]  # each row has its own
    return more | {"devices": ranks if more["kind"] == "GPU" else len(os.sched_getaffinity(0))}


def part(path: Path, ranks: int, measure: Callable, *given) -> dict:
    """What `measure` gives on rank 0 of so many ranks; from `path`, if it is there already."""
    return kept(path, lambda: on_ranks(ranks, measure, *given, backend="auto"))


def layers(width: int, device: torch.device) -> nn.Sequential:
    """The model, the same on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(LAYERS))).to(device)


def time_steps(here: Here, counts: list[int], repeats: int, steps: int) -> dict:
    """Seconds a step by (kind, ranks), the hidden share of the communication, the load before."""
    load = load_average()
    groups = {n: dist.new_group(list(range(n))) for n in counts}  # all ranks make all groups
    mine = {n: trainer(groups[n], n, here.device) for n in counts if here.rank < n}
    watch = {n: watcher(groups[n], here.device) for n in counts if n > 1 and here.rank < n}

    def one(kind: str, n: int) -> tuple[float, float]:
        dist.barrier()
        if here.rank >= n:
            return math.nan, math.nan
        rows = ROWS if kind == "weak" else max(1, ROWS // n)

        def block() -> None:
            for _ in range(steps):
                mine[n](rows)

        took = slowest(block, here.device, groups[n]) / steps
        return took, watch[n](rows) if n > 1 else math.nan

    ways = {(kind, n): partial(one, kind, n) for n in counts for kind in KINDS}
    found = interleaved(ways, repeats, WARM_UP).items()
    seconds, hidden = ({way: [each[i] for each in turns] for way, turns in found} for i in (0, 1))
    return {"seconds": seconds, "hidden": hidden, "load": load}


def trainer(group: dist.ProcessGroup, ranks: int, device: torch.device) -> Callable[[int], None]:
    """What makes one step on so many rows; alone, without DDP."""
    model: nn.Module = layers(WIDTH, device)
    if ranks > 1:
        model = DistributedDataParallel(model, process_group=group, bucket_cap_mb=BUCKET)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0)  # the same work in every step

    def step(rows: int) -> None:
        optimizer.zero_grad()
        model(torch.ones(rows, WIDTH, device=device)).square().mean().backward()
        optimizer.step()

    return step


def watcher(group: dist.ProcessGroup, device: torch.device) -> Callable[[int], float]:
    """What makes one backward pass on so many rows: the hidden share, over all ranks."""
    model = DistributedDataParallel(
        layers(WIDTH, device), process_group=group, bucket_cap_mb=BUCKET
    )
    recorder = OverlapRecorder(model)

    def share(rows: int) -> float:
        loss = model(torch.ones(rows, WIDTH, device=device)).square().mean()
        with recorder.backward():
            loss.backward()
        found = recorder.recorded()
        sums = torch.tensor([found.hidden, found.communication], device=device)
        dist.all_reduce(sums, group=group)
        return (sums[0] / sums[1]).item()

    return share


def measure_memory(here: Here, way: str) -> dict[str, int]:
    """Bytes that the fullest rank keeps after two steps: by what they are, and of the process."""
    train(way, 8, here)  # loads code that would be weighed, too
    before = footprint(here.device)
    trained = train(way, WIDE, here)
    return most(held(*trained) | {"process": footprint(here.device) - before}, here.device)


def train(way: str, width: int, here: Here) -> tuple[nn.Module, torch.optim.Optimizer, dict]:
    """What `prepare` gives, after two steps."""
    model, optimizer, buckets = prepare(way, width, here)
    for _ in range(2):
        buckets.clear()  # DDP makes them anew after the first step
        optimizer.zero_grad()
        model(torch.ones(8, width, device=here.device)).square().mean().backward()
        optimizer.step()
    return model, optimizer, buckets


def prepare(
    way: str, width: int, here: Here
) -> tuple[nn.Module, torch.optim.Optimizer, dict[int, int]]:
    """Model, optimizer, and the storages of DDP's buckets, noted in every step: place to bytes."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model: nn.Module = layers(width, here.device)
    buckets: dict[int, int] = {}
    if way == "FSDP":
        for layer in model.children():
            fully_shard(layer)
        fully_shard(model)
    elif here.ranks > 1:
        model = DistributedDataParallel(
            model, bucket_cap_mb=BUCKET, gradient_as_bucket_view=way == WAYS[1]
        )
        model.register_comm_hook(buckets, noting)
    if way == "ZeRO optimizer":
        return model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam), buckets
    return model, torch.optim.Adam(model.parameters()), buckets


def noting(buckets: dict[int, int], bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """DDP's own averaging, which notes where the bucket lies."""
    buckets |= storages([bucket.buffer()])
    return allreduce_hook(None, bucket)


def held(model: nn.Module, optimizer, buckets: Mapping[int, int]) -> dict[str, int]:
    """Bytes of each kind on this rank; a storage counts once, under its first kind."""
    state = getattr(optimizer, "optim", optimizer).state  # ZeRO's own is inside
    parameters = list(model.parameters())
    parts = {
        "parameters": storages(parameters),
        "gradients": storages([p.grad for p in parameters if p.grad is not None]),
        "state": storages(v for of in state.values() for v in of.values()),
        "buckets": dict(buckets),
    }
    seen: set[int] = set()
    found = {}
    for name, places in parts.items():
        found[name] = sum(size for place, size in places.items() if place not in seen)
        seen |= places.keys()
    return found


def storages(tensors: Iterable[torch.Tensor]) -> dict[int, int]:
    """The memory that `tensors` lie in, of FSDP's this rank's part: place to bytes."""
    local = (getattr(t, "_local_tensor", t).untyped_storage() for t in tensors)
    return {storage.data_ptr(): storage.nbytes() for storage in local if storage.nbytes()}


def footprint(device: torch.device) -> int:
    """Bytes of this process: on the GPU by torch's own account, else its share of the memory."""
    dist.barrier()  # memory that ranks share is divided by how many they are
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    gc.collect()
    dist.barrier()
    return psutil.Process().memory_full_info().pss


def table(found: Mapping) -> list[dict]:
    """One row a (kind, ranks): times, rows a second, efficiency, and the hidden share."""
    rows, one = [], {}
    for (kind, n), seconds in found["seconds"].items():
        row = {"kind": kind, "ranks": n, "unit": "ms"} | summary(seconds)
        rate = (ROWS * n if kind == "weak" else max(1, ROWS // n) * n) / statistics.median(seconds)
        one.setdefault(kind, rate)
        row |= {"rows/s": round(rate), "efficiency": f"{rate / one[kind] / n:.0%}"}
        if n > 1:
            share = statistics.median(found["hidden"][kind, n])
            row["hidden"] = f"{share:.0%}"
        rows.append(row)
    return rows


def memory_row(found: Mapping) -> dict:
    """MiB by what they are."""
    sizes = {name: found[name] for name in (*PARTS, "process")}
    about = {"kind": found["way"], "ranks": found["ranks"]}
    return about | {f"{name} MiB": round(size / 2**20, 1) for name, size in sizes.items()}


def picture(found: Mapping, memory: list[dict]) -> dict:
    """What `plots.more_ranks` draws: lists, as JSON has no other keys than text."""
    rates = [{"kind": r["kind"], "ranks": r["ranks"], "rate": r["rows/s"]} for r in table(found)]
    hidden = [
        {"kind": kind, "ranks": n} | summary(shares, unit=1.0)
        for (kind, n), shares in found["hidden"].items()
        if n > 1
    ]
    return {"rates": rates, "hidden": hidden, "memory": memory}


if __name__ == "__main__":
    main()
