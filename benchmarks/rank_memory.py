"""What a rank has at its fullest moment under each strategy: by formula, watched, and resident.

    python -m benchmarks.rank_memory --ranks 2

Writes book/results/rank_memory-cpu-2.json. No times: bytes do not depend on what else runs.
"""

import argparse
import os

from benchmarks.harness import Here, about, on_ranks
from benchmarks.record import write
from rankbook.core.agreement import gather
from rankbook.models.classifier import Classifier
from rankbook.speed import PeakMemory, make_batch, size, synthetic
from rankbook.speed.strategies import prepare
from rankbook.speed.strategies.peak import ParameterCounts, peak
from rankbook.speed.strategies.watch import watch

MIB, BUCKET_MB = 2**20, 1.0
LARGE = size("cpu", layers=8, d_model=512, d_hidden=2048, vocab_size=7000, max_length=16)
DEEPSPEED = {"bucket_mb": BUCKET_MB}
WAYS: dict[str, tuple[str, dict]] = {
    "alone": ("alone", {}),
    "ddp": ("ddp", {}),
    "ddp, no view": ("ddp", {"as_view": False}),
    "zero1": ("zero1", {}),
    "fsdp2": ("fsdp2", {}),
    "fsdp2, kept": ("fsdp2", {"reshard": False}),
    "deepspeed1": ("deepspeed1", DEEPSPEED),
    "deepspeed2": ("deepspeed2", DEEPSPEED),
    "deepspeed3": ("deepspeed3", DEEPSPEED | {"live": 0}),
}
WHAT = (
    "The fullest moment of a training step, {millions:.0f} million parameters, {ranks} "
    "ranks: MiB of the fullest rank by the formula and as watched, both without activations; with "
    "them; what its process grew by, as the kernel counts; and what a rank sends"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    parser = argparse.ArgumentParser(description="Watch the memory of a rank under each strategy.")
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args(arguments)
    if options.ranks < 2:
        parser.error(f"--ranks {options.ranks} has nobody to share with; use 2 or more")
    more = about(options.ranks)
    # glibc keeps freed blocks for later, unless it gets each from the kernel and returns it there
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(2**16)
    rows = []
    for way in WAYS:  # each in processes of its own: what one leaves would hide what another needs
        rows.append(on_ranks(options.ranks, watched, way))
        print(rows[-1], flush=True)
    millions = rows[0].pop("parameters") / 1e6
    for row in rows[1:]:
        row.pop("parameters")
    what = WHAT.format(millions=millions, ranks=options.ranks)
    libraries = ("torch", "deepspeed")
    print(write(f"rank_memory-cpu-{options.ranks}", what, rows, libraries=libraries, **more))


def watched(here: Here, way: str) -> dict:
    """The row of `way`: train while the kernel watches, then train again and watch."""
    texts = synthetic(24, LARGE)
    parts = [list(range(at, at + 8)) for at in (0, 8, 16)]
    batches = [make_batch(texts, numbers, "longest of batch") for numbers in parts]
    name, options = WAYS[way]
    model = Classifier(LARGE.model, attention="sdpa").initialise(seed=0)
    shape = ParameterCounts.of(model)
    del model

    def make():
        model = Classifier(LARGE.model, attention="sdpa").initialise(seed=0)
        return prepare(name, model, 1e-3, **options)

    with PeakMemory("cpu") as resident:  # first: what a watched step leaves would hide it
        trained = make()
        for batch in batches[:-1]:
            trained.step(batch)
        with PeakMemory("cpu"):  # it forgets the peak of wrapping, when the model is still whole
            trained.step(batches[-1])
    trained.close()
    del trained
    tape = watch(make, batches)
    mine = {
        "measured MiB": tape.strategy_peak.total,
        "peak MiB": tape.peak.total,
        "resident MiB": resident.grown or 0,
        "sent MiB": sum(tape.sent.values()),
    }
    by_rank = gather(mine)
    found = {key: round(max(each[key] for each in by_rank) / MIB, 1) for key in mine}
    by_formula = round(peak(way, shape, here.ranks, BUCKET_MB).total / MIB, 1)
    return {"strategy": way, "formula MiB": by_formula} | found | {"parameters": shape.total}


if __name__ == "__main__":
    main()
