"""WikiText-2 for a whole epoch: four ranks, one process, a reference, and what the recipe costs.

    python -m benchmarks.wikitext2 --logs DIR           all that DIR has no log of, then write
    python -m benchmarks.wikitext2 --logs DIR --write   only write what is there

Writes wikitext2-epoch-cpu-2.json and wikitext2-recipe-cpu-2.json to book/results, those of which
there is a log. Takes an hour and a half on two cores. No times are measured: the machine may be
busy, and the trainings may run side by side. Needs the real WikiText-2; see rankbook.data.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.record import write
from benchmarks.wikitext2_alone import CHANGES, recipe, train_alone
from rankbook.data import wikitext2
from rankbook.training.metrics import unigram_loss

EPOCH, EVERY = 1464, 183  # whole windows of 40 x 35 tokens; an eighth of it
RECIPE_STEPS, RECIPE_BATCHES = 150, 40  # the original took 3 x 50 steps
SEEDS = range(5)  # of each recipe: one row more or less is chance
WHOLE_EPOCH = (
    f"--preset tiny --batch 40 --window 35 --steps {EPOCH} --evaluate-every {EVERY} --log-every 12"
)
EPOCH_WHAT = (
    "Training on WikiText-2 in steps of 40 rows of 35 tokens: the loss of a token of the whole "
    "validation text, in nats, after every eighth of an epoch. The same program on 4 ranks and as "
    "one process; the reference is transformers' GPT-2, which has its own initial values and loop"
)
RECIPE_WHAT = (
    "From the original's recipe to the book's, one change after the other, each in addition to "
    f"those before: the loss of a token, in nats, of {RECIPE_BATCHES} batches of the validation "
    f"text after {RECIPE_STEPS} steps of 40 rows of 35 tokens. One process, torch's layers, the "
    f"median of {len(SEEDS)} seeds"
)


@dataclass(frozen=True)
class Ranks:
    """A run of the program pipe_ddp: processes, its options, and the name in the result."""

    name: str
    processes: int
    options: str

    def command(self, log: Path) -> list[str]:
        """What starts it."""
        torchrun = f"-m torch.distributed.run --standalone --nproc-per-node {self.processes}"
        program = f"{torchrun} -m rankbook.programs.pipe_ddp {self.options} --log-file {log}"
        return [sys.executable, *program.split()]


RANKS = {
    "ranks": Ranks(
        "4 ranks", 4, f"--stages 2 --replicas 2 --microbatches 4 {WHOLE_EPOCH} --timeout 3000"
    ),
    "one": Ranks("one process", 1, f"--stages 1 --replicas 1 --microbatches 1 {WHOLE_EPOCH}"),
}
RECIPES = {
    name: [f"recipe-{number}-{seed}" for seed in SEEDS] for number, (name, _) in enumerate(CHANGES)
}
ALONE = {"reference": ("reference", 0)} | {
    job: (name, seed) for name, jobs in RECIPES.items() for seed, job in enumerate(jobs)
}


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, then write both results."""
    parser = argparse.ArgumentParser(description="Train on WikiText-2 for an epoch.")
    parser.add_argument("--logs", type=Path, required=True, metavar="DIR", help="of the trainings")
    parser.add_argument("--write", action="store_true", help="run nothing, write what is there")
    parser.add_argument("--only", choices=[*RANKS, *ALONE], help="run this one, and write nothing")
    options = parser.parse_args(arguments)
    options.logs.mkdir(exist_ok=True, parents=True)
    if not options.write:
        for job in [options.only] if options.only else [*RANKS, *ALONE]:
            log = options.logs / f"{job}.jsonl"
            if options.only or not log.exists():
                run(job, log)
    if not options.only:
        for path in write_results(options.logs):
            print(path)


def run(job: str, log: Path) -> None:
    """One training, to its end. Raises CalledProcessError where the program fails."""
    if job in RANKS:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run(RANKS[job].command(log), env=environment, check=True)
    elif job == "reference":
        train_alone(job, EPOCH, EVERY, None, log)
    else:
        name, seed = ALONE[job]
        train_alone(name, RECIPE_STEPS, RECIPE_STEPS, RECIPE_BATCHES, log, seed=seed)


def read(log: Path) -> list[dict]:
    """The records of a training; none where it was not made."""
    return (
        [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
    )


def write_results(logs: Path) -> list[Path]:
    """The files of which there are logs. Raises ValueError if one is not of WikiText-2."""
    epoch, curves = [], {}
    names = {job: ranks.name for job, ranks in RANKS.items()} | {"reference": "reference"}
    for job, name in names.items():
        found = read(logs / f"{job}.jsonl")
        if not found:
            continue
        check_data(found)
        epoch += [valid_row(name, record) for record in found if "valid_loss" in record]
        curves[name] = [[r["step"], round(r["loss"], 6)] for r in found if "loss" in r]
    prices = []
    for name, jobs in RECIPES.items():
        made = [found for job in jobs if (found := read(logs / f"{job}.jsonl"))]
        for found in made:
            check_data(found)
        if made:
            prices.append(price(name, made))
    size = [r["start"]["parameters"] for r in read(logs / "reference.jsonl") if "start" in r]
    more = {"unigram": unigram(), "parameters of the reference": size[0] if size else None,
            "training": curves}  # fmt: skip
    commands = {ranks.name: " ".join(ranks.command(Path("LOG"))[1:]) for ranks in RANKS.values()}
    more["commands"] = commands
    written = []
    if epoch:
        libraries = "torch", "transformers"
        written += [write("wikitext2-epoch-cpu-2", EPOCH_WHAT, epoch, libraries, **more)]
    if prices:
        written += [write("wikitext2-recipe-cpu-2", RECIPE_WHAT, prices, ("torch",))]
    return written


def valid_row(name: str, record: Mapping) -> dict:
    """One validation of the training called `name`."""
    return {"run": name, "step": record["step"], "valid loss": round(record["valid_loss"], 6)}


def price(name: str, made: list[list[dict]]) -> dict:
    """What a recipe came to, `made` once for each seed: medians, and the loss of each seed.

    `ended` says of a seed that its training gave no number any more.
    """
    valid = [r["valid_loss"] for found in made for r in found if "valid_loss" in r]
    ended = [f"{r['ended']}, step {r['step']}" for found in made for r in found if "ended" in r]
    losses = [[r["loss"] for r in found if "loss" in r] for found in made]
    losses = [each for each in losses if each]
    return {
        "change": name,
        **recipe(name),
        "steps": min(found[-1].get("step", 0) for found in made),
        "highest training loss": round(median(map(max, losses)), 4) if losses else None,
        "last training loss": round(median(each[-1] for each in losses), 4) if losses else None,
        "valid loss": round(median(valid), 4) if valid else None,
        "valid losses": [round(loss, 4) for loss in valid],
        "ended": "; ".join(ended),
    }


def unigram() -> float:
    """The loss of the whole validation text for a model that knows only the words' frequencies."""
    corpus = wikitext2()
    check_data([{"start": {"data": corpus.source}}])
    return round(unigram_loss(corpus.train, corpus.valid, len(corpus.vocab)), 6)


def check_data(found: list[dict]) -> None:
    """Raise ValueError if the training was on the text that stands in for WikiText-2."""
    for record in found:
        source = record.get("start", {}).get("data", "")
        if "in its place" in source:
            raise ValueError(f"a training was on {source}; set RANKBOOK_DATA, and do it again")


if __name__ == "__main__":
    main()
