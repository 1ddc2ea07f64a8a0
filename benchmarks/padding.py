"""What padding costs, and what brings it back: four ways of batching, timed in turn on the CPU.

    python -m benchmarks.padding

Writes book/results/speed-padding-cpu-2.json (2 is the number of cores). It takes some four minutes;
nothing else should run on the machine meanwhile.
"""

import argparse
import os

import torch

from benchmarks.record import check_repeats, load_average, write
from plots import recovered
from rankbook.speed.batches import WAYS, padding
from rankbook.speed.ladder import run
from rankbook.speed.recipes import recipe
from rankbook.speed.reviews import Reviews
from rankbook.speed.sizes import Size, size
from rankbook.speed.tokenising import tokenised

# wide enough for the arithmetic to be what takes the time, in all four ways
WIDE = {"layers": 3, "d_model": 256, "d_hidden": 1024, "heads": 4}
GOAL = 0.9  # of the padding's cost, recovered by bucketing and by packing
WHAT = (
    "Training a film review classifier of 3 layers of width 256 on IMDB, texts cut at 512 tokens, "
    "the first {steps} batches of 12, {attention} attention and fused Adam: seconds of a pass in "
    "four ways of batching (arithmetic: what is computed for each FLOP of the real tokens; "
    "recovered: the share of the padding's cost)"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    options = parse(arguments)
    load = load_average()
    wide = size("cpu", **WIDE, samples=options.steps * 12)
    rows = timed(wide, tokenised(wide)["train"], options.repeats, options.attention)
    print(*rows, sep="\n", flush=True)
    path = write(
        f"speed-padding-cpu-{len(os.sched_getaffinity(0))}",
        WHAT.format(steps=options.steps, attention=options.attention),
        [_flat(row) for row in rows],
        libraries=("torch",),
        kind="CPU",
        load=load,
        threads=torch.get_num_threads(),
        goal=GOAL,
        padding=rows,
    )
    print(path)


def _flat(row: dict) -> dict:
    """A row of the page of benchmarks: without what is no single number."""
    flat = {name: value for name, value in row.items() if name != "gain"}
    return flat | {"recovered": f"{row['recovered']:.1%}"}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description="Time four ways of batching.")
    parser.add_argument("--repeats", type=int, default=7, help="timed passes of each way (7)")
    parser.add_argument("--steps", type=int, default=9, help="batches of a pass (9)")
    parser.add_argument("--attention", choices=["eager", "sdpa"], default="sdpa", help="(sdpa)")
    options = parser.parse_args(arguments)
    check_repeats(parser, options.repeats)
    if options.steps < 1:
        parser.error(f"--steps {options.steps} times nothing; use 1 or more")
    return options


def timed(wide: Size, reviews: Reviews, repeats: int, attention: str = "sdpa") -> list[dict]:
    """One row a way of batching: its time, its arithmetic, what it recovers.

    "gain" is how many times as fast it was within a turn: median, 10th and 90th percentile.
    The optimizer's cost is the same for all ways, and none of the padding's: fused, it is least.
    """
    plain = recipe("seldom", "cpu").replace(attention=attention, workers=0, fused=True)
    recipes = [plain.replace(name=way, base=None, batching=way) for way in WAYS]
    rows = run(recipes, wide, reviews, repeats=repeats)
    for row in rows:
        if "seconds" not in row:
            raise RuntimeError(f"{row['name']} did not run: {row}")
    arithmetic = {way: arithmetic_of(way, wide, reviews) for way in WAYS}
    shares = recovered({row["name"]: row["seconds"] for row in rows}, arithmetic)
    return [
        {"batching": row["name"], "unit": "s", "repeats": row["repeats"]}
        | {name: float(f"{value:.4g}") for name, value in row["seconds"].items()}
        | {"samples/s": round(row["samples_per_s"], 2), "times": round(row["speed_up"], 3)}
        | {"arithmetic": round(arithmetic[row["name"]], 4), "of peak": f"{row['peak_share']:.0%}"}
        | {"recovered": round(shares[row["name"]], 4), "gain": row["times"]}
        for row in rows
    ]


def arithmetic_of(way: str, wide: Size, reviews: Reviews) -> float:
    """What is computed for each FLOP of the real tokens, in a pass; all passes have its batches."""
    return padding(reviews.lengths, way, wide.batch, config=wide.model).arithmetic_ratio


if __name__ == "__main__":
    main()
