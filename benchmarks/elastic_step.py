"""What `elastic_step` costs beyond a step of DDP: one all_reduce after backward, no overlap.

    python -m benchmarks.elastic_step [--repeats 15] [--widths 64 512 1024]

Two ranks train the same model both ways, in turns, forward, backward and SGD. Writes
book/results/elastic_step-cpu-2.json. Nothing else should run on the machine meanwhile.
"""

import argparse
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.harness import Here, about, interleaved, on_ranks, show, slowest
from benchmarks.record import check_repeats, summary, write
from rankbook.training.elastic import elastic_step

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
    more, rows = about(RANKS) | {"unit": "ms"}, []
    for width in options.widths:
        rows += table(width, on_ranks(RANKS, measure, width, options.repeats))
    show(*rows)
    print(write("elastic_step-cpu-2", WHAT, rows, libraries=("torch",), **more))


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


def measure(_here: Here, width: int, repeats: int) -> dict[str, list[float]]:
    """Seconds a step of the slowest rank, by way."""
    blocks = {way: block_of(way, width) for way in WAYS}
    ways = {way: lambda block=block: slowest(block) / STEPS for way, block in blocks.items()}
    return interleaved(ways, repeats, WARM_UP)


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
