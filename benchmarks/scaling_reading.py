"""Who reads for whom: rank 0 for all ranks (Trainer's default for a stream), or each for itself.

    python -m benchmarks.scaling_reading --ranks 4

Writes book/results/scaling_reading-cpu-2.json (2 is the number of cores), or -gpu-N with nccl where
there is a GPU for each of N ranks. Lines of WikiText-2 are read and tokenized, and nothing else is
done with them: this is the most that a training could be fed with. The ways take turns. Nothing
else should run on the machine meanwhile. With --keep FOLDER, a run that was cut off goes on.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from benchmarks.harness import Here, interleaved, most
from benchmarks.record import check_repeats, summary, write
from benchmarks.scaling import check_ranks, machine, part, up_to
from rankbook.data import ShardedLines, distilbert_tokenizer, wikitext2_text

FIRST, SHARES = "rank 0 reads for all", "each rank reads its own"
WORKERS = (0, 1, 2)
BATCH, LENGTH = 16, 128  # lines of a rank's batch; tokens that each is cut or filled to
WARM_UP = 1
LIBRARIES = ("torch", "transformers", "accelerate", "tokenizers")
WHAT = (
    "Lines of WikiText-2, read and tokenized (DistilBERT's tokenizer, batches of {batch} a rank, "
    "filled to {length} tokens): thousands of lines a second of all ranks together, by the "
    "slowest, from the first batch on; {lines} lines each time. Rank 0 reads for all: accelerate's "
    "dispatch_batches; each rank reads its own: ShardedLines in a plain DataLoader"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    options = parse(arguments)
    more = machine(options.ranks)
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "lines.txt")
        text.write_text(enough(options.lines), "utf-8")
        keep = options.keep or Path(folder)
        work = (measure, str(text), options.lines, options.repeats)
        found = {n: part(keep / f"reading-{n}", n, *work) for n in up_to(options.ranks)}
    rows = table(found)
    what = WHAT.format(batch=BATCH, length=LENGTH, lines=options.lines)
    name = f"scaling_reading-{more['kind'].lower()}-{more['devices']}"
    path = write(name, what, rows, libraries=LIBRARIES, **more)
    print(*rows, path, sep="\n")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description="Time two ways of reading lines.")
    parser.add_argument("--ranks", type=int, default=4, help="the most, a power of two (4)")
    parser.add_argument("--repeats", type=int, default=7, help="timed turns of each way (7)")
    parser.add_argument("--lines", type=int, default=2048, help="of all ranks in a turn (2048)")
    parser.add_argument("--keep", type=Path, help="a folder for finished parts, to go on with")
    options = parser.parse_args(arguments)
    check_ranks(parser, options.ranks)
    check_repeats(parser, options.repeats)
    least = 4 * BATCH * options.ranks
    if options.lines < least or options.lines % (BATCH * options.ranks):
        parser.error(
            f"--lines {options.lines}: it has to be a multiple of {BATCH * options.ranks}, "
            f"and {least} or more"
        )
    return options


def enough(lines: int) -> str:
    """A text of so many lines that every reader has more than its part, none of them blank."""
    own = [line for line in wikitext2_text("valid").split("\n") if line.strip()]
    copies = -(-3 * lines // len(own))
    return "\n".join(own * copies)


def measure(here: Here, path: str, lines: int, repeats: int) -> dict:
    """Lines a second of all ranks, by (way, workers)."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a worker has one core
    # accelerate looks for the ranks there, and wants an address set
    os.environ |= {"RANK": str(here.rank), "LOCAL_RANK": str(here.rank)}
    os.environ |= {"WORLD_SIZE": str(here.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    make, steps = loaders(here, path), lines // (BATCH * here.ranks)
    ways = {
        (way, workers): lambda way=way, workers=workers: timed(make(way, workers), steps, here)
        for workers in WORKERS
        for way in (FIRST, SHARES)
    }
    return interleaved(ways, repeats, WARM_UP)


def loaders(here: Here, path: str) -> Callable[[str, int], DataLoader]:
    """What makes the loader of a way, with so many workers."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    tokenizer = distilbert_tokenizer()
    dispatch = DataLoaderConfiguration(dispatch_batches=True)
    accelerator = Accelerator(cpu=here.device.type == "cpu", dataloader_config=dispatch)

    def collate(lines: list[str]) -> dict[str, torch.Tensor]:
        options = {"truncation": True, "max_length": LENGTH, "padding": "max_length"}
        return dict(tokenizer(lines, **options, return_tensors="pt"))

    def make(way: str, workers: int) -> DataLoader:
        share = {"rank": 0, "world_size": 1} if way == FIRST else {}
        dataset = ShardedLines(path, **share)
        # spawned ranks would spawn their workers, too; a rank of torchrun forks them
        loader = DataLoader(
            dataset,
            BATCH,
            collate_fn=collate,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
        )
        return accelerator.prepare(loader) if way == FIRST else loader

    return make


def timed(loader: DataLoader, steps: int, here: Here) -> float:
    """Lines a second of all ranks, from the first batch on, by the slowest rank."""
    dist.barrier()
    batches: Iterator = iter(loader)
    size = tokens(next(batches))
    start = time.perf_counter()
    for _ in range(1, steps):
        assert tokens(next(batches)) == size, "a batch was not full"
    seconds = most({"all": time.perf_counter() - start}, here.device)["all"]
    return (steps - 1) * BATCH * here.ranks / seconds


def tokens(batch: dict[str, torch.Tensor]) -> int:
    """Of a batch, filling included."""
    return batch["input_ids"].numel()


def table(found: dict[int, dict]) -> list[dict]:
    """One row a (ranks, workers, way); "times" is against rank 0 reading for all, beside it."""
    rows = []
    for n, rates in found.items():
        for (way, workers), values in rates.items():
            row = {"ranks": n, "workers": workers, "way": way, "unit": "1000 lines/s"}
            row |= summary(values, unit=1e-3)
            if way == SHARES:
                ratios = [a / b for a, b in zip(values, rates[FIRST, workers], strict=True)]
                row["times"] = round(statistics.median(ratios), 2)
            rows.append(row)
    return rows


if __name__ == "__main__":
    main()
