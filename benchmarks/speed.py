"""The whole ladder of recipes on the CPU, in turns.

    python -m benchmarks.speed

Writes book/results/speed-cpu-2.json (2 is the number of cores). It takes some quarter of an hour;
nothing else should run on the machine meanwhile. Accuracies are `benchmarks.speed_accuracy`'s.
On a GPU: ``make gpu-records``.
"""

import argparse
import os

import torch

from benchmarks.ladder.record import flat
from benchmarks.record import check_repeats, load_average, write
from rankbook.speed.ladder import run
from rankbook.speed.recipes import ladder
from rankbook.speed.sizes import size
from rankbook.speed.tokenising import tokenised

WHAT = (
    "The ladder of the size cpu: training a film review classifier of {layers} layers of width "
    "{width} on IMDB, texts cut at 512 tokens, {steps} batches of 12; seconds of a pass"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    options = parse(arguments)
    load = load_average()
    usual = size("cpu")
    rows = run(
        ladder("cpu"),
        usual,
        tokenised(usual),
        steps=options.steps,
        repeats=options.repeats,
        say=lambda line: print(line, flush=True),
    )
    model, lines = usual.model, [flat(row) for row in rows]
    path = write(
        f"speed-cpu-{len(os.sched_getaffinity(0))}",
        WHAT.format(layers=model.layers, width=model.d_model, steps=options.steps),
        lines,
        libraries=("torch",),
        kind="CPU",
        load=load,
        threads=torch.get_num_threads(),
        ladder=rows,
    )
    print(*lines, path, sep="\n")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description="Time the ladder of recipes.")
    parser.add_argument("--repeats", type=int, default=9, help="timed passes of each row (9)")
    parser.add_argument("--steps", type=int, default=8, help="batches of a pass (8)")
    options = parser.parse_args(arguments)
    check_repeats(parser, options.repeats)
    if options.steps < 1:
        parser.error(f"--steps {options.steps} times nothing; use 1 or more")
    return options


if __name__ == "__main__":
    main()
