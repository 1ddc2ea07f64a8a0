"""What Join costs a training step, beside plain DDP and an all_reduce of "has data".

    python -m benchmarks.join --ranks 2

Writes book/results/join-cpu-2.json (or -4). All inputs are even here, so that plain DDP can run
them, too; what is compared is timed in turn. Nothing else should run on the machine meanwhile.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from benchmarks.record import check_repeats, summary, write
from rankbook.training import equal_steps

WIDTHS = (64, 512)  # of three layers
STEPS, ROWS = 10, 16  # steps of a timed block; rows of a batch on a rank
WARM_UP = 3
WAYS = ("DDP", "DDP in Join", "has data, lockstep")
LEAVE = "leaving Join"
WHAT = (
    "A training step (forward, backward, SGD) of three linear layers in DDP, even inputs, a thread "
    f"a rank: mean of {STEPS} steps of the slowest rank; and the end of Join, once an epoch"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    options = parse(arguments)
    load = round(os.getloadavg()[0], 1)  # what else the machine did
    with tempfile.TemporaryDirectory() as folder:
        spec = (folder, options.ranks, options.repeats)
        mp.start_processes(on_rank, spec, nprocs=options.ranks, start_method="spawn")
        seconds = torch.load(f"{folder}/seconds", weights_only=True)
    rows = table(seconds)
    about = {"kind": "CPU", "ranks": options.ranks, "backend": "gloo", "load": load}
    path = write(f"join-cpu-{options.ranks}", WHAT, rows, libraries=("torch",), **about)
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    print(path)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description="Time steps with and without Join.")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=60, help="timed blocks of each way (60)")
    options = parser.parse_args(arguments)
    if options.ranks < 2:
        parser.error(f"--ranks {options.ranks} has nobody to wait for; use 2 or more")
    check_repeats(parser, options.repeats)
    return options


def table(seconds: dict[tuple[int, str], list[float]]) -> list[dict]:
    """One row a (width, way). "times DDP": the median over blocks of the ratio to DDP's, its
    neighbour in time, with the bounds of the median that hold with 95% confidence."""
    rows = []
    for (width, way), times in seconds.items():
        row = {"parameters": parameters(width), "way": way, "unit": "ms"} | summary(times)
        if way in WAYS[1:]:
            ratios = [a / b for a, b in zip(times, seconds[width, WAYS[0]], strict=True)]
            row["times DDP"], *row["95%"] = middle(ratios)
        rows.append(row)
    return rows


def middle(values: list[float]) -> tuple[float, float, float]:
    """The median, and the order statistics n/2 -+ 0.98 sqrt(n) around it."""
    ordered = sorted(values)
    aside = max(0, round(len(ordered) / 2 - 0.98 * len(ordered) ** 0.5))
    found = torch.tensor(ordered).quantile(0.5).item(), ordered[aside], ordered[-1 - aside]
    return tuple(round(value, 3) for value in found)


def parameters(width: int) -> int:
    """Of three layers."""
    return 3 * width * (width + 1)


def on_rank(rank: int, folder: str, ranks: int, repeats: int) -> None:
    """One rank: time everything in turn; rank 0 writes the seconds a step of the slowest."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    torch.set_num_threads(1)
    where = {"init_method": f"file://{folder}/store", "rank": rank, "world_size": ranks}
    dist.init_process_group("gloo", **where)
    blocks = {width: block_of(width) for width in WIDTHS}
    seconds = {(width, way): [] for width in WIDTHS for way in (*WAYS, LEAVE)}
    for repeat in range(-WARM_UP, repeats):
        for width, block in blocks.items():
            first = repeat % len(WAYS)
            for way in (*WAYS[first:], *WAYS[:first]):
                for name, took in block(way).items():
                    if repeat >= 0:
                        seconds[width, name].append(took)
    if rank == 0:
        torch.save(seconds, f"{folder}/seconds")
    dist.destroy_process_group()


def block_of(width: int) -> Callable[[str], dict[str, float]]:
    """What trains `STEPS` steps in one way, and gives the seconds a step of the slowest rank."""
    torch.manual_seed(0)
    layers = [nn.Linear(width, width) for _ in range(3)]
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = [(torch.randn(ROWS, width),) for _ in range(STEPS)]

    def steps(turns: Iterator[tuple]) -> None:
        for (inputs,), scale in turns:
            optimizer.zero_grad()
            (model(inputs).pow(2).mean() * scale).backward()
            optimizer.step()

    def block(way: str) -> dict[str, float]:
        plain = ((batch, 1.0) for batch in batches)
        dist.barrier()
        start = time.perf_counter()
        if way == WAYS[1]:
            with Join([model]):
                steps(plain)
                used_up = time.perf_counter()
            times = {way: (used_up - start) / STEPS, LEAVE: time.perf_counter() - used_up}
        else:
            steps(plain if way == WAYS[0] else (turn[:2] for turn in equal_steps(batches)))
            times = {way: (time.perf_counter() - start) / STEPS}
        slowest = torch.tensor(list(times.values()), dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        return dict(zip(times, slowest.tolist(), strict=True))

    return block


if __name__ == "__main__":
    main()
