"""What Join and lockstep add to a training step of plain DDP.

    python -m benchmarks.join --ranks 2

Writes book/results/join-cpu-2.json (or -4). All inputs are even here, so that plain DDP can run
them, too; what is compared is timed in turn. Each way has a model of its own: Join leaves its
settings in the DDP that it was given, which goes on notifying after the block, so a "plain" step
of that DDP would pay for Join. Nothing else should run on the machine meanwhile.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from benchmarks.harness import Here, about, interleaved, most, on_ranks, show
from benchmarks.record import check_repeats, summary, write
from rankbook.training import equal_steps

MODELS = {"3 x 64": (64, False), "3 x 512": (512, False), "3 x 512, BatchNorm": (512, True)}
STEPS, ROWS = 20, 16  # steps of a timed block; rows of a batch on a rank
WARM_UP = 3
WAYS = ("DDP", "Join", "lockstep")
LEAVE = "leaving "
WHAT = (
    "A training step (forward, backward, SGD) of three linear layers in DDP, even inputs, a thread "
    f"a rank: mean of {STEPS} steps of the slowest rank; and the time from the last step to the "
    "end of the loop or of the block, once an epoch"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    options = parse(arguments)
    more = about(options.ranks)
    rows = table(on_ranks(options.ranks, measure, options.repeats))
    path = write(f"join-cpu-{options.ranks}", WHAT, rows, libraries=("torch",), **more)
    show(*rows)
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


def table(seconds: dict[tuple[str, str], list[float]]) -> list[dict]:
    """One row a (model, way). "more": milliseconds beyond DDP's, its neighbour in time; the median
    over blocks, with the bounds of the median that hold with 95% confidence."""
    rows = []
    for (model, way), times in seconds.items():
        row = {"model": model, "parameters": parameters(model), "way": way, "unit": "ms"}
        row |= summary(times)
        if way in WAYS[1:]:
            plain = seconds[model, WAYS[0]]
            more = [1e3 * (a - b) for a, b in zip(times, plain, strict=True)]
            row["more"], *row["95%"] = middle(more)
        rows.append(row)
    return rows


def middle(values: list[float]) -> tuple[float, float, float]:
    """The median, and the order statistics n/2 -+ 0.98 sqrt(n) around it."""
    ordered = sorted(values)
    aside = max(0, round(len(ordered) / 2 - 0.98 * len(ordered) ** 0.5))
    found = statistics.median(ordered), ordered[aside], ordered[-1 - aside]
    return tuple(round(value, 3) for value in found)


def net(model: str) -> nn.Module:
    """One of the MODELS, with the same values on all ranks."""
    width, norm = MODELS[model]
    torch.manual_seed(0)
    layer = [lambda: nn.Linear(width, width)] + [lambda: nn.BatchNorm1d(width)] * norm
    return nn.Sequential(*(make() for _ in range(3) for make in layer))


def parameters(model: str) -> int:
    """How many it has."""
    return sum(p.numel() for p in net(model).parameters())


def measure(_here: Here, repeats: int) -> dict[tuple[str, str], list[float]]:
    """Seconds a step of the slowest rank, and of leaving the loop, by model and way."""
    blocks = {(model, way): block_of(model, way) for model in MODELS for way in WAYS}
    seconds = {}
    for (model, _), of_blocks in interleaved(blocks, repeats, WARM_UP).items():
        for times in of_blocks:
            for name, took in times.items():
                seconds.setdefault((model, name), []).append(took)
    return seconds


def block_of(model: str, way: str) -> Callable[[], dict[str, float]]:
    """What trains `STEPS` steps in one way, and gives the seconds a step of the slowest rank."""
    ddp = DistributedDataParallel(net(model))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
    batches = [(torch.randn(ROWS, MODELS[model][0]),) for _ in range(STEPS)]

    def steps(turns: Iterable[tuple]) -> float:
        """Train, and say when the last step was done."""
        for (inputs,), scale, *_ in turns:
            optimizer.zero_grad()
            (ddp(inputs).pow(2).mean() * scale).backward()
            optimizer.step()
            done = time.perf_counter()
        return done

    def block() -> dict[str, float]:
        plain = [(batch, 1.0) for batch in batches]
        dist.barrier()
        start = time.perf_counter()
        with Join([ddp]) if way == "Join" else nullcontext():
            done = steps(equal_steps(batches) if way == "lockstep" else plain)
        times = {way: (done - start) / STEPS}
        if way != WAYS[0]:
            times[LEAVE + way] = time.perf_counter() - done
        return most(times)

    return block


if __name__ == "__main__":
    main()
