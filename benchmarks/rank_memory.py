"""What a rank has at its fullest moment under each strategy: by formula, watched, and resident.

    python -m benchmarks.rank_memory --ranks 2

Writes book/results/rank_memory-cpu-2.json. No times: bytes do not depend on what else runs.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

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
    # glibc keeps freed blocks for later, unless it gets each from the kernel and returns it there
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(2**16)
    rows = []
    for way in WAYS:  # each in processes of its own: what one leaves would hide what another needs
        with tempfile.TemporaryDirectory() as folder:
            spec = (folder, options.ranks, way)
            mp.start_processes(on_rank, spec, nprocs=options.ranks, start_method="spawn")
            rows.append(torch.load(f"{folder}/found", weights_only=True))
        print(rows[-1], flush=True)
    millions = rows[0].pop("parameters") / 1e6
    for row in rows[1:]:
        row.pop("parameters")
    what = WHAT.format(millions=millions, ranks=options.ranks)
    about = {"kind": "CPU", "ranks": options.ranks, "backend": "gloo"}
    libraries = ("torch", "deepspeed")
    print(write(f"rank_memory-cpu-{options.ranks}", what, rows, libraries=libraries, **about))


def on_rank(rank: int, folder: str, ranks: int, way: str) -> None:
    """One rank: watch `way`, then train again while the kernel watches; rank 0 writes."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    torch.set_num_threads(1)
    where = {"init_method": f"file://{folder}/store", "rank": rank, "world_size": ranks}
    dist.init_process_group("gloo", **where)
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
    if rank == 0:
        found = {key: round(max(each[key] for each in by_rank) / MIB, 1) for key in mine}
        by_formula = round(peak(way, shape, ranks, BUCKET_MB).total / MIB, 1)
        row = {"strategy": way, "formula MiB": by_formula} | found
        torch.save(row | {"parameters": shape.total}, Path(folder, "found"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
