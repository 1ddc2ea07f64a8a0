"""What padding costs and what brings it back, and the whole ladder of recipes, on the CPU.

    python -m benchmarks.speed

Writes book/results/speed-cpu-2.json (2 is the number of cores). Every part is one run in which
recipes take turns. It takes half an hour; nothing else should run on the machine meanwhile. On a
GPU: ``python -m rankbook.programs.speed --ladder full --out book/results/speed-gpu-1.json``.
"""

import argparse
import os
import statistics
from collections.abc import Sequence

import torch

from benchmarks.record import write
from rankbook.plots.padding import recovered
from rankbook.programs.speed_record import flat
from rankbook.speed.batches import WAYS, padding
from rankbook.speed.ladder import run
from rankbook.speed.recipes import ladder, recipe
from rankbook.speed.reviews import Reviews, tokenised
from rankbook.speed.sizes import Size, size

# wide enough for the arithmetic to be what takes the time, in all four ways of batching
WIDE = {"layers": 3, "d_model": 256, "d_hidden": 1024, "heads": 4}
GOAL = 0.9  # of the padding's cost, recovered by bucketing and by packing
WHAT = (
    "Training a film review classifier on IMDB, texts cut at 512 tokens, batches of 12; seconds "
    "of a pass. First {steps} batches of a model of 3 layers of width 256 in four ways of batching "
    "(arithmetic: what is computed for each FLOP of the real tokens; recovered: the share of the "
    "padding's cost), then the ladder of the size cpu, {layers} layers of width {width}, on "
    "{short} batches"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    options = parse(arguments)
    torch.set_num_threads(options.threads or torch.get_num_threads())
    load = round(os.getloadavg()[0], 1)  # what else the machine did
    cores = len(os.sched_getaffinity(0))
    wide = size("cpu", **WIDE, samples=options.steps * 12)
    pads = padding_rows(wide, tokenised(wide)["train"], options.repeats, options.attention)
    print(*pads, sep="\n", flush=True)
    usual = size("cpu")
    rows = run(
        ladder("cpu"),
        usual,
        tokenised(usual),
        steps=options.short,
        repeats=options.repeats,
        accuracy=None if options.no_accuracy else usual.epochs,
        say=lambda line: print(line, flush=True),
    )
    model = usual.model
    what = WHAT.format(
        steps=options.steps, short=options.short, layers=model.layers, width=model.d_model
    )
    table = [pad | {"recovered": f"{pad['recovered']:.1%}"} for pad in pads]
    about = {"kind": "CPU", "load": load, "threads": torch.get_num_threads(), "goal": GOAL}
    path = write(
        f"speed-cpu-{cores}",
        what,
        [*table, *map(flat, rows)],
        libraries=("torch",),
        **about,
        padding=pads,
        ladder=rows,
    )
    print(*map(flat, rows), path, sep="\n")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description="Time padding, and the ladder of recipes.")
    parser.add_argument("--repeats", type=int, default=5, help="timed passes of each row (5)")
    parser.add_argument("--steps", type=int, default=24, help="batches of a padding pass (24)")
    parser.add_argument("--short", type=int, default=8, help="batches of a ladder pass (8)")
    parser.add_argument("--attention", choices=["eager", "sdpa"], default="sdpa",
                        help="of the padding rows (sdpa)")  # fmt: skip
    parser.add_argument("--threads", type=int, help="of the process (one a core)")
    parser.add_argument("--no-accuracy", action="store_true", help="do not train to the end")
    options = parser.parse_args(arguments)
    if options.repeats < 3:
        parser.error(f"--repeats {options.repeats} gives no median and spread; use 3 or more")
    if min(options.steps, options.short, options.threads or 1) < 1:
        parser.error("--steps, --short and --threads have to be 1 or more")
    return options


def padding_rows(
    wide: Size, reviews: Reviews, repeats: int, attention: str = "sdpa", ways: Sequence = WAYS
) -> list[dict]:
    """One row a way of batching, timed in turn: its time, its arithmetic, what it recovers."""
    plain = recipe("seldom", "cpu").replace(attention=attention, workers=0)
    recipes = [plain.replace(name=way, base=None, batching=way) for way in ways]
    timed = run(recipes, wide, reviews, repeats=repeats)
    for row in timed:
        if "seconds" not in row:
            raise RuntimeError(f"{row['name']} did not run: {row}")
    seconds = {row["name"]: row["seconds"] for row in timed}
    arithmetic = {way: arithmetic_of(way, wide, reviews, repeats) for way in ways}
    shares = recovered(seconds, arithmetic)
    return [
        {"row": "padding", "batching": row["name"], "unit": "s", "repeats": row["repeats"]}
        | {name: float(f"{value:.4g}") for name, value in row["seconds"].items()}
        | {"samples/s": round(row["samples_per_s"], 2), "times": round(row["speed_up"], 3)}
        | {"arithmetic": round(arithmetic[row["name"]], 4), "of peak": f"{row['peak_share']:.0%}"}
        | {"recovered": round(shares[row["name"]], 4)}
        for row in timed
    ]


def arithmetic_of(way: str, wide: Size, reviews: Reviews, repeats: int) -> float:
    """What is computed for each FLOP of the real tokens, over the timed passes (not the first)."""
    return statistics.mean(
        padding(reviews.lengths, way, wide.batch, config=wide.model, epoch=turn).arithmetic_ratio
        for turn in range(1, repeats + 1)
    )


if __name__ == "__main__":
    main()
