"""One model on two ranks: every strategy's step, beside one process, and the memory of a rank.

    python -m benchmarks.speed_many --ranks 2

Writes book/results/speed_many-cpu-2.json. All strategies take turns on the same batches, a thread
a rank; one process is timed with one thread and with as many as there are ranks. Nothing else
should run on the machine meanwhile.
"""

import argparse
from collections.abc import Callable
from contextlib import nullcontext

import torch
import torch.distributed as dist

from benchmarks.harness import Here, about, on_ranks
from benchmarks.record import check_repeats, summary, write
from rankbook.core.agreement import broadcast_from_rank0, gather
from rankbook.core.timing import time_interleaved
from rankbook.speed.batches import Batch, loader
from rankbook.speed.init_model import init_model
from rankbook.speed.sizes import size
from rankbook.speed.strategies import STRATEGIES, Strategy, prepare
from rankbook.speed.strategies.memory import formula, measured
from rankbook.speed.tokenising import tokenised

WARM_UP, MICROBATCHES = 2, 4
ALONE, NO_SYNC, SYNC = "alone", "ddp, 4 parts, sent once", "ddp, 4 parts, each sent"
LOSSES = {"ddp-bf16": 2e-2}  # what the first losses may be off by; the others by float32's rounding
WHAT = (
    "A training step of the size cpu ({layers} layers of width {width}, packed reviews of IMDB, "
    "{batch} in all), {ranks} ranks of a thread each, or one process: milliseconds of the slowest "
    "rank, mean of {steps} steps; MiB that the fullest rank keeps; MiB that DDP sends in a step"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    options = parse(arguments)
    more = about(options.ranks)
    tokenised(size("cpu"))  # kept in the cache: the ranks only read it
    found = on_ranks(options.ranks, measure, options)
    rows = table(found, options)
    more |= {"memory": memory(found, options.ranks), "rates": rates(rows, options.ranks)}
    config = size("cpu").model
    what = WHAT.format(layers=config.layers, width=config.d_model, batch=options.batch,
                       ranks=options.ranks, steps=options.steps)  # fmt: skip
    path = write(f"speed_many-cpu-{options.ranks}", what, rows, libraries=("torch",), **more)
    print(*rows, path, sep="\n")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description="Time strategies on several ranks.")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=20, help="timed blocks of each way (20)")
    parser.add_argument("--steps", type=int, default=4, help="of a block (4)")
    parser.add_argument("--batch", type=int, default=24, help="reviews of all ranks (24)")
    options = parser.parse_args(arguments)
    if options.ranks < 2:
        parser.error(f"--ranks {options.ranks} has nobody to share with; use 2 or more")
    check_repeats(parser, options.repeats)
    if options.batch % (options.ranks * MICROBATCHES):
        parser.error(f"--batch {options.batch} is no multiple of {options.ranks * MICROBATCHES}, "
                     f"{options.ranks} ranks x {MICROBATCHES} parts")  # fmt: skip
    return options


def table(found: dict, options: argparse.Namespace) -> list[dict]:
    """One row a way. "times alone": its speed over that of one process with one thread."""
    rows = []
    for (way, threads), seconds in found["seconds"].items():
        row = {"strategy": way, "threads": threads, "unit": "ms"} | summary(seconds)
        row["samples/s"] = round(1000 * options.batch / row["median"], 1)
        row |= {f"{part} MiB": round(b / 2**20, 2) for part, b in found["memory"][way].items()}
        if way in found["traffic"]:
            calls, sent = found["traffic"][way]
            row |= {"all_reduces": calls, "sent MiB": round(sent / 2**20, 2)}
        rows.append(row)
    for row in rows:
        row["times alone"] = round(rows[0]["median"] / row["median"], 2)
    return rows


def memory(found: dict, ranks: int) -> list[dict]:
    """What `plots.rank_memory` draws, for the strategies proper."""
    rows = []
    for way in STRATEGIES:
        by_formula = vars(formula(way, found["parameters"], ranks))
        rows.append({"strategy": way, "measured": found["memory"][way], "formula": by_formula})
    return rows


def rates(rows: list[dict], ranks: int) -> dict[str, dict[int, float]]:
    """Samples per second by strategy and ranks, for `plots.scaling`; a thread a rank."""
    one = rows[0]["samples/s"]
    return {r["strategy"]: {1: one, ranks: r["samples/s"]} for r in rows if r["strategy"] != ALONE}


def measure(here: Here, options: argparse.Namespace) -> dict:
    """Seconds a step by way, memory, and what is sent in a step."""
    cpu = size("cpu", samples=options.steps * options.batch)
    batches = list(loader(tokenised(size("cpu"))["train"].first(cpu.samples), "packed",
                          options.batch))  # fmt: skip
    trained = {way: make(way, cpu) for way in (*STRATEGIES, NO_SYNC, SYNC)}
    ways: dict[tuple[str, int], Callable] = {
        (ALONE, threads): block(trained[ALONE], batches, threads) for threads in (1, options.ranks)
    }
    for way in (*STRATEGIES, NO_SYNC, SYNC):
        if way != ALONE:
            parts = MICROBATCHES if way in (NO_SYNC, SYNC) else 1
            ways[way, 1] = block(trained[way], batches, 1, parts)
    check(ways)
    time_interleaved(ways, WARM_UP, here.device, warm_up=0, clock="slowest rank")
    counted = {way: each.traffic for way, each in trained.items() if each.traffic}
    for each in counted.values():
        each.reset()
    # of one process alone rank 0 is the slowest: the others have nothing to do
    blocks = time_interleaved(ways, options.repeats, here.device, warm_up=0, clock="slowest rank")
    seconds = {way: [took / options.steps for took in turns] for way, turns in blocks.items()}
    kept = fullest({way: vars(measured(each)) for way, each in trained.items()})
    steps = options.steps * options.repeats
    return {
        "seconds": seconds,
        "memory": kept,
        "traffic": {w: (t.all_reduces / steps, t.bytes / steps) for w, t in counted.items()},
        "parameters": sum(p.numel() for p in trained[ALONE].model.parameters()),
    }


def make(way: str, cpu) -> Strategy:
    """The model from the same weights, under `way`."""
    model, _ = init_model(cpu, attention="sdpa")
    trained = prepare("ddp" if way in (NO_SYNC, SYNC) else way, model, cpu.lr)
    if way == SYNC:
        trained.no_sync = nullcontext
    return trained


def block(trained: Strategy, batches: list[Batch], threads: int, parts: int = 1) -> Callable:
    """What trains on all `batches`; the losses. One process alone is rank 0; the others wait."""

    def steps() -> list[float]:
        if trained.name == ALONE and dist.get_rank() > 0:
            return []
        torch.set_num_threads(threads)
        losses = [
            trained.step(*(batch.split(parts) if parts > 1 else [batch])) for batch in batches
        ]
        torch.set_num_threads(1)
        return [loss.item() for loss in losses]

    return steps


def check(ways: dict[tuple[str, int], Callable]) -> None:
    """Run each once, and raise RuntimeError if a way does not train as one process does."""
    expected = broadcast_from_rank0(ways[ALONE, 1])
    for (way, _), steps in ways.items():
        if way == ALONE:
            continue
        off = max(abs(a - b) for a, b in zip(steps(), expected, strict=True))
        if not off <= LOSSES.get(way, 1e-3):
            raise RuntimeError(f"{way}: losses are off by {off:.1e} from one process's")


def fullest(kept: dict[str, dict]) -> dict[str, dict]:
    """By way, what the rank keeps that keeps most: shares need not be equal."""
    by_rank = gather(kept)
    return {
        way: max((each[way] for each in by_rank), key=lambda b: sum(b.values())) for way in kept
    }


if __name__ == "__main__":
    main()
