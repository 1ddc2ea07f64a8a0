"""The preset of a billion parameters at the size of the original's batch, and as large as fits."""

import sys

import torch

from benchmarks import pipelines_gpu
from benchmarks.gpu.options import parse
from benchmarks.gpu.rows import Rows
from rankbook.models import preset

WHAT = (
    "Training steps of preset original (1.04 billion parameters), 2 stages in one process on one "
    "GPU. The original's text has 699 ms for 40 rows of 35 tokens, on four GPUs"
)
REPEATS, FILLING = 9, 7


def main(arguments: list[str] | None = None) -> int:
    """Measure what was not measured yet; 1 if a row has failed."""
    options = parse(arguments, "Time the preset of a billion parameters.")
    device = options.device
    rows = Rows("original-gpu-1", WHAT, device)
    with pipelines_gpu.process_group("gloo" if options.tiny else "nccl"):
        made = (
            pipelines_gpu.make(preset("tiny", 64), device, microbatches=4)
            if options.tiny
            else pipelines_gpu.original(device)
        )
        # two at a time, the first in each pair: ratios are of one run
        first, *others = pipelines_gpu.VARIANTS[:1] if options.tiny else pipelines_gpu.VARIANTS
        for variant in others or [first]:
            name = f"{variant[0]}, {'compiled' if variant[1] else 'eager'}"
            rows.measure(name, lambda variant=variant: timed(made, first, variant))
        if not options.tiny:
            rows.measure("a batch that fills the card", lambda: pipelines_gpu.fill(*made, FILLING))
    return rows.failed()


def timed(made, first, variant) -> dict:
    """One row, timed in turns with the first variant."""
    both = dict.fromkeys((first, variant))
    found = pipelines_gpu.like_the_text(*made, list(both), REPEATS)
    speed_up = found[0]["median"] / found[-1]["median"]
    torch.compiler.reset()
    return found[-1] | {"times float32": round(speed_up, 2), "float32 ms": found[0]["median"]}


if __name__ == "__main__":
    sys.exit(main())
