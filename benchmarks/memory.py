"""What a live rank holds at its fullest moment: by formula, watched, and what each cure costs.

    python -m benchmarks.memory --ranks 2

Writes book/results/memory-cpu-2.json. The batch is the same for all set-ups of so many ranks. Bytes
do not depend on what else runs; the seconds do: steps of all set-ups are timed in turn, in a launch
of their own, and nothing else should run on the machine meanwhile.
"""

import argparse
import os
import statistics

import torch

from benchmarks.harness import Here, about, on_ranks, show
from benchmarks.record import check_repeats, summary, write
from rankbook.core.agreement import gather
from rankbook.core.timing import time_interleaved
from rankbook.models.transformer import TransformerConfig
from rankbook.predict.memory.formula import memory_of
from rankbook.predict.memory.live import prepare
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.recording import record_step
from rankbook.predict.memory.setup import Setup

MIB = 2**20
CONFIG = TransformerConfig(2000, d_model=128, d_hidden=512, heads=4, layers=6, max_length=64)
WINDOW, ROWS = 64, 16
ALONE: dict[str, dict] = {
    "plain": {},
    "4 microbatches": {"microbatches": 4},
    "selective": {"checkpointing": "selective"},
    "layers": {"checkpointing": "layers"},
    "activations on the host": {"offload": ("activations",)},
    "optimizer on the host": {"offload": ("optimizer",)},
    "bf16": {"precision": "bf16"},
    "bf16 states": {"precision": "bf16-states"},
    "4 microbatches, layers": {"microbatches": 4, "checkpointing": "layers"},
}


def shared(n: int) -> dict[str, dict]:
    """Set-ups of `n` ranks."""
    return {
        "plain": {"dp": n},
        "ZeRO 1": {"dp": n, "zero": 1},
        "ZeRO 2": {"dp": n, "zero": 2},
        "FSDP2": {"dp": n, "zero": 3},
        "FSDP2, kept": {"dp": n, "zero": 3, "reshard": False},
        "FSDP2, bf16": {"dp": n, "zero": 3, "precision": "fsdp-bf16"},
        "FSDP2, layers": {"dp": n, "zero": 3, "checkpointing": "layers"},
        "tensor": {"tp": n},
        "tensor, layers": {"tp": n, "checkpointing": "layers"},
        "1F1B": {"pp": n, "microbatches": 4},
        "GPipe": {"pp": n, "microbatches": 4, "schedule": "gpipe"},
        "1F1B, layers": {"pp": n, "microbatches": 4, "checkpointing": "layers"},
    }


WHAT = (
    "The fullest moment of a training step, a Transformer of 6 layers of width 128, {millions:.1f} "
    "million parameters, {rows} rows of 64 tokens, {ranks} rank(s): MiB of the fullest rank by the "
    "formula and as watched, without what waits on the host; MiB by which a step grows over what "
    "stays, watched and as the kernel counts; milliseconds of a step, and as a multiple of plain"
)


def setups(ranks: int) -> dict[str, Setup]:
    """Of so many ranks, all on the same batch."""
    found = {}
    for name, options in (shared(ranks) if ranks > 1 else ALONE).items():
        how = {"precision": "float32", "gloo": True, "microbatches": 1, "dp": 1} | options
        sequences = ROWS // how["microbatches"] // how["dp"]
        found[name] = Setup(**how, sequences=sequences)
    return found


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=12, help="timed steps of each set-up")
    options = parser.parse_args(arguments)
    check_repeats(parser, options.repeats)
    if not 1 <= options.ranks <= CONFIG.heads:
        parser.error(f"--ranks {options.ranks}: the model has heads for 1 to {CONFIG.heads}")
    more = about(options.ranks)
    seconds = on_ranks(options.ranks, timed, options.repeats)
    # glibc keeps freed blocks for later, unless it gets each from the kernel and returns it there
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(2**16)
    bytes_ = on_ranks(options.ranks, watched)
    plain = statistics.median(seconds["plain"])
    rows = []
    for name in bytes_:
        times = round(statistics.median(seconds[name]) / plain, 2)
        rows.append({"set-up": name, **bytes_[name], "unit": "ms", **summary(seconds[name])})
        rows[-1]["times"] = times
        show(rows[-1])
    millions = ModelShape.of(CONFIG, WINDOW).parameters / 1e6
    what = WHAT.format(millions=millions, rows=ROWS, ranks=options.ranks)
    print(write(f"memory-cpu-{options.ranks}", what, rows, libraries=("torch",), **more))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and targets, alike on all ranks."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(CONFIG.vocab_size, (2, ROWS, WINDOW), generator=generator)
    return ids[0], ids[1]


def watched(here: Here) -> dict[str, dict]:
    """MiB of the fullest rank under each set-up."""
    found = {}
    shape = ModelShape.of(CONFIG, WINDOW)
    for name, how in setups(here.ranks).items():
        step = prepare(CONFIG, how)
        tape = record_step(step, *batch(), resident=True)
        stage = here.rank // (how.dp * how.tp)
        mine = {
            "formula MiB": memory_of(shape, how, stage).total,
            "measured MiB": tape.total,
            "grown MiB": tape.total - tape.totals[0],
            "resident MiB": tape.resident or 0,
        }
        every = gather(mine)
        off = max((each["formula MiB"] / each["measured MiB"] - 1 for each in every), key=abs)
        most = {key: round(max(each[key] for each in every) / MIB, 2) for key in mine}
        found[name] = most | {"off": round(off, 4)}
        del step
    return found


def timed(here: Here, repeats: int) -> dict[str, list[float]]:
    """Seconds of steps under each set-up, which take turns."""
    steps = {name: prepare(CONFIG, how) for name, how in setups(here.ranks).items()}
    rows = batch()
    ways = {name: lambda step=step: step(*rows) for name, step in steps.items()}
    # the first ones are not like the others
    return time_interleaved(ways, repeats, here.device, warm_up=2, clock="slowest rank")


if __name__ == "__main__":
    main()
