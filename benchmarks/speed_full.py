"""The text's own training on the CPU, at its size: DistilBERT, batches of 12, texts of 512 tokens.

    python -m benchmarks.speed_full

Writes book/results/speed_full-cpu-2.json (2 is the number of cores). Every row takes its turn on
the same reviews; each turn is kept when it is measured, so that the program goes on where it
stopped. Nothing else should run on the machine meanwhile. On two cores it takes about half an hour,
and 15 GB of memory, since every row keeps its model.
"""

import argparse
import gc
import json
import os
from pathlib import Path

import torch

from benchmarks import record
from benchmarks.record import check_repeats, load_average, summary, write
from rankbook.core.atomic import write_text_atomic
from rankbook.models.classifier import Classifier
from rankbook.speed.batches import loader
from rankbook.speed.loop import Training, one_pass
from rankbook.speed.recipes import Recipe, recipe
from rankbook.speed.reviews import Reviews
from rankbook.speed.sizes import Size, size
from rankbook.speed.skipping import reason_to_skip
from rankbook.speed.tokenising import tokenised

CHAIN = ("longest of batch", "bucketed", "packed", "sdpa", "fused")
WHAT = (
    "A training step of DistilBERT as the text trains it ({millions} million parameters, random "
    "weights, 12 reviews, cut or padded to 512 tokens), batches a turn: {steps}, of the same "
    "{reviews} reviews of IMDB, whose lengths stand for all: seconds a step"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure what is missing, print one line a turn, and write the result."""
    options = parse(arguments)
    name = f"speed_full-cpu-{len(os.sched_getaffinity(0))}"
    full = size("full", pretrained=False)  # as fast, whatever its weights
    reviews = standing_for_all(tokenised(size("cpu"))["train"], options.steps * full.batch)
    kept = Kept(record.RESULTS / f".{name}.turns.json", options.steps)
    measure(recipes(options.steps), full, reviews, options.repeats, kept)
    print(finish(name, full, options.steps, kept))
    kept.path.unlink()  # the next time it is measured anew


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description="Time the text's training at its own size.")
    parser.add_argument("--repeats", type=int, default=7, help="timed turns of each row (7)")
    parser.add_argument("--steps", type=int, default=4, help="batches of a turn (4)")
    options = parser.parse_args(arguments)
    check_repeats(parser, options.repeats)
    if options.steps < 1:
        parser.error(f"--steps {options.steps} times nothing; use 1 or more")
    return options


def recipes(steps: int) -> list[Recipe]:
    """The rows: each one switch from its base; batches are made in this process, by no worker.

    steps: batches of a turn. A single one holds the same reviews whether or not they were sorted,
    so then "bucketed" is left out.
    """
    plain = recipe("seldom", "cpu").replace(name="plain", base=None, workers=0)
    chain = [recipe(name, "cpu").replace(workers=0) for name in CHAIN]
    chain[0] = chain[0].replace(base="plain")
    if steps == 1:
        chain = [each for each in chain if each.name != "bucketed"]
        chain[1] = chain[1].replace(base=chain[0].name)
    sixteen = [  # the text's own step, with all of the padding; and the ladder's
        plain.replace(name="bf16", base="plain", precision="bf16"),
        chain[-2].replace(name="bf16, packed", base="sdpa", precision="bf16"),
    ]
    return [plain, *chain, *sixteen]


def standing_for_all(reviews: Reviews, count: int) -> Reviews:
    """As many of `reviews`, of lengths spread like those of all of them, in a random order."""
    order = reviews.lengths.argsort(stable=True)
    places = (torch.arange(count) + 0.5) * len(reviews) / count
    mixed = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    chosen = order[places.long()][mixed].tolist()
    return Reviews.of([reviews.text(i) for i in chosen], reviews.labels[chosen],
                      reviews.vocabulary, reviews.source)  # fmt: skip


class Kept:
    """The turns measured so far, in a file beside the results: seconds a step, by row.

    With them, the machine's highest load average (processes) at any start of the program.
    """

    def __init__(self, path: Path, steps: int):
        self.path, self.about = path, {"steps": steps, "threads": torch.get_num_threads()}
        self.seconds: dict[str, list[float]] = {}
        self.skipped: dict[str, str] = {}
        self.load = load_average()
        if path.is_file():
            found = json.loads(path.read_text("utf-8"))
            if found["about"] == self.about:  # else it is measured anew
                self.seconds, self.skipped = found["seconds"], found["skipped"]
                self.load = max(self.load, found["load"])

    def add(self, name: str, seconds: float) -> None:
        """Note one turn, and write all of them."""
        self.seconds.setdefault(name, []).append(seconds)
        self.save()

    def save(self) -> None:
        """Write the file, whole or not at all."""
        parts = {"about": self.about, "load": self.load}
        parts |= {"seconds": self.seconds, "skipped": self.skipped}
        self.path.parent.mkdir(exist_ok=True)
        write_text_atomic(self.path, json.dumps(parts))


def measure(rows: list[Recipe], full: Size, reviews: Reviews, repeats: int, kept: Kept) -> None:
    """Take turns until each row has `repeats`; the first row of a turn is another one each time."""
    running = []
    for row in rows:
        lacks = reason_to_skip(row, "cpu")
        if lacks:
            kept.skipped[row.name] = lacks
        else:
            running.append(row)
    ready: dict[str, Training] = {}
    for turn in range(repeats):
        first = turn % len(running)
        for row in running[first:] + running[:first]:
            if len(kept.seconds.get(row.name, [])) > turn:
                continue
            if row.name not in ready:  # its warm-up is a pass over the same batches
                ready[row.name] = Training(row, full)
                timed(ready[row.name], full, reviews)
            kept.add(row.name, timed(ready[row.name], full, reviews))
            print(f"turn {turn + 1}, {row.name}: {kept.seconds[row.name][-1]:.2f} s a step",
                  flush=True)  # fmt: skip


def timed(training: Training, full: Size, reviews: Reviews) -> float:
    """Seconds a step over all of `reviews`, in the order of the first epoch each time."""
    batches = list(loader(reviews, training.recipe.batching, full.batch))
    done = one_pass(training, batches)
    training.optimizer.zero_grad()  # gradients of one row only, at any time
    gc.collect()
    return done.seconds / len(done.losses)


def finish(name: str, full: Size, steps: int, kept: Kept) -> Path:
    """Write the result of all turns."""
    table: list[dict] = []
    for row in recipes(steps):
        line: dict = {"name": row.name, "base": row.base}
        if row.name in kept.skipped:
            table.append(line | {"skipped": kept.skipped[row.name]})
            continue
        times = summary(kept.seconds[row.name], unit=1.0)
        line["seconds"] = {key: times[key] for key in ("median", "p10", "p90")}
        table.append(line | {"repeats": times["repeats"], "turns": kept.seconds[row.name]})
    flat = [
        {key: row[key] for key in ("name", "base", "repeats", "skipped") if key in row}
        | {"unit": "s"}
        | row.get("seconds", {})
        for row in table
    ]
    with torch.device("meta"):  # shapes, and no memory
        count = sum(p.numel() for p in Classifier(full.model).parameters())
    what = WHAT.format(millions=round(count / 1e6), steps=steps, reviews=steps * full.batch)
    more = {"kind": "CPU", "load": kept.load, "threads": torch.get_num_threads(), "ladder": table}
    return write(name, what, flat, libraries=("torch",), **more)


if __name__ == "__main__":
    main()
