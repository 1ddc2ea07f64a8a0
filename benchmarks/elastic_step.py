"""What `elastic_step` costs beyond a step of DDP: one all_reduce after backward, no overlap.

    python -m benchmarks.elastic_step [--repeats 15] [--widths 64 512 1024]

Two ranks train the same model both ways, in turns, forward, backward and SGD. Writes
book/results/elastic_step-cpu-2.json. Nothing else should run on the machine meanwhile.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.record import check_repeats, summary, write
from rankbook.elastic import elastic_step

RANKS, LAYERS, ROWS, STEPS, WARM_UP = 2, 6, 32, 4, 2
WAYS = ("one process", "DDP", "elastic_step")
WHAT = (
    f"A step (forward, backward, SGD) of {LAYERS} linear layers and {ROWS} rows a rank: mean of "
    f"{STEPS} steps of the slowest of {RANKS} ranks, a thread each, in turns. one process: the "
    "step without any communication, on both ranks at once. more: elastic_step beyond DDP, of the "
    "same turn"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    options = parse(arguments)
    load = round(os.getloadavg()[0], 1)  # what else the machine did
    rows = []
    for width in options.widths:
        with tempfile.TemporaryDirectory() as folder:
            spec = (folder, width, options.repeats)
            mp.start_processes(on_rank, spec, nprocs=RANKS, start_method="spawn")
            rows += table(width, torch.load(f"{folder}/seconds", weights_only=True))
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    about = {"kind": "CPU", "ranks": RANKS, "backend": "gloo", "unit": "ms", "load": load}
    print(write("elastic_step-cpu-2", WHAT, rows, libraries=("torch",), **about))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15, help="turns (15)")
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 512, 1024])
    options = parser.parse_args(arguments)
    check_repeats(parser, options.repeats)
    return options


def table(width: int, seconds: dict[str, list[float]]) -> list[dict]:
    """One row a way, in milliseconds; "more": beyond DDP's step of the same turn, in percent."""
    size = {"width": width, "MB": round(4 * LAYERS * (width * width + width) / 1e6, 2)}
    rows = [size | {"way": way} | summary(seconds[way]) for way in WAYS]
    pairs = zip(seconds["elastic_step"], seconds["DDP"], strict=True)
    more = summary([ours / theirs - 1 for ours, theirs in pairs], unit=100)
    rows[-1]["more"] = [more["median"], more["p10"], more["p90"]]
    return rows


def losses(model: nn.Module, rows: Tensor) -> Tensor:
    """The loss of each row."""
    return model(rows).square().mean(1)


def on_rank(rank: int, folder: str, width: int, repeats: int) -> None:
    """One rank: the ways in turn; rank 0 writes the seconds a step of the slowest."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    torch.set_num_threads(1)
    where = {"init_method": f"file://{folder}/store", "rank": rank, "world_size": RANKS}
    dist.init_process_group("gloo", **where)
    blocks = {way: block_of(way, width) for way in WAYS}
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(-WARM_UP, repeats):
        first = turn % len(WAYS)
        for way in (*WAYS[first:], *WAYS[:first]):
            dist.barrier()
            start = time.perf_counter()
            blocks[way]()
            took = torch.tensor([(time.perf_counter() - start) / STEPS], dtype=torch.float64)
            dist.all_reduce(took, op=dist.ReduceOp.MAX)
            if turn >= 0:
                seconds[way].append(took.item())
    if rank == 0:
        torch.save(seconds, f"{folder}/seconds")
    blocks.clear()  # a DDP has to go before its group
    dist.destroy_process_group()


def block_of(way: str, width: int) -> Callable[[], None]:
    """What trains STEPS steps in one way."""
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Linear(width, width) for _ in range(LAYERS)))
    model = DistributedDataParallel(net) if way == "DDP" else net
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    rows = torch.randn(ROWS, width)

    def block() -> None:
        for _ in range(STEPS):
            if way == "elastic_step":
                elastic_step(net, optimizer, losses, rows)
                continue
            optimizer.zero_grad()
            losses(model, rows).mean().backward()
            optimizer.step()

    return block


if __name__ == "__main__":
    main()
