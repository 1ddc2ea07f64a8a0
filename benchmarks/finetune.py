"""Three routes of fine-tuning from one pretrained model, and no pretraining at all: on the CPU.

    python -m benchmarks.finetune

Pretrains a small model on IMDB's text first, since published weights need a network. What was
trained stays in a folder of the cache, so that a second run only measures the times and writes
book/results/finetune-cpu-2.json (2 is the number of cores). All of it takes about an hour on one
core; the times, a minute, need a machine that does nothing else: --train leaves them out.
"""

import argparse
import dataclasses
import os
import time
from pathlib import Path
from typing import cast

import torch
from torch.nn import functional as F

from benchmarks.finetune_pretraining import cut, fewer_words, new, pieces, pretrain
from benchmarks.harness import kept
from benchmarks.record import check_repeats, load_average, summary, write
from rankbook.data.sources import cache_folder
from rankbook.models import Classifier
from rankbook.speed import (
    Batch,
    Order,
    PeakMemory,
    Reviews,
    compare,
    loader,
    size,
    time_interleaved,
    tokenised,
)
from rankbook.speed.routes import extract, train_only

SIZE = size(
    "cpu", vocab_size=8192, d_model=128, d_hidden=512, heads=4, max_length=128,
    batch=32, epochs=6, samples=35_000, validation=1_000, test=10_000,
)  # fmt: skip
LABELS = 2_000  # reviews whose labels are used; each seed draws its own
SEEDS = 3
# by way: the route, whether from the pretrained weights, the rate
WAYS = {
    "features, first token": ("features", True, 0.0),
    "features, mean": ("features", True, 0.0),
    "last layer": ("last layer", True, 2e-3),
    "all layers": ("all layers", True, 1e-3),
    "from scratch": ("all layers", False, 1e-3),
}
WHAT = (
    "Fine-tuning a classifier of 2 layers of width 128 on IMDB, texts cut at 128 tokens, {labels} "
    "labelled reviews, {seeds} seeds, which draw the reviews, the new weights and the order; "
    "pretrained by {steps} steps of guessing masked words. Accuracy on {test} test reviews at the "
    "best epoch by validation; better: than from scratch, in points, with the 95 % interval of a "
    "paired comparison; ms: a batch of 32, forward alone for features, else a whole step"
)


def main(arguments: list[str] | None = None) -> None:
    """Train what is not kept yet; then measure, print one line a row, and write the result."""
    options = parse(arguments)
    splits = data()
    weights, read = kept(options.keep / "pretrained.pt", lambda: pretrained(splits, options.steps))
    results: dict[str, list[dict]] = {way: [] for way in WAYS}
    for seed in range(SEEDS):
        for way in WAYS:
            path = options.keep / f"{way.replace(', ', ' ').replace(' ', '-')}-{seed}.pt"
            done = kept(path, lambda way=way, seed=seed: learn(way, weights, splits, seed))
            results[way].append(done)
            right, taken = done["right"].float().mean(), done["seconds"]
            print(f"{way}, seed {seed}: {right:.2%}, {taken:.0f} s", flush=True)
    if not options.train:
        print(record(results, weights, read, splits, options.repeats))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description="Compare three routes of fine-tuning.")
    parser.add_argument(
        "--keep", type=Path, default=cache_folder() / "finetune", help="folder of what was trained"
    )
    parser.add_argument("--steps", type=int, default=3000, help="of pretraining (3000)")
    parser.add_argument("--repeats", type=int, default=15, help="timed turns (15)")
    parser.add_argument("--train", action="store_true", help="train only, measure no times")
    options = parser.parse_args(arguments)
    check_repeats(parser, options.repeats)
    if options.steps < 20:
        parser.error(f"--steps {options.steps} reads nothing; use 20 or more")
    return options


def data() -> dict[str, Reviews]:
    """IMDB's splits with the model's vocabulary; the training set in its whole length."""
    whole = size("cpu", samples=SIZE.samples, validation=SIZE.validation, test=SIZE.test)
    found = fewer_words(tokenised(whole), SIZE.model.vocab_size)
    short = {name: cut(found[name], SIZE.max_length) for name in ("validation", "test")}
    return found | short


def pretrained(splits: dict[str, Reviews], steps: int) -> tuple[dict, dict]:
    """Weights, and what the reading was."""
    texts = pieces(splits["train"], SIZE.max_length)
    model, read = pretrain(SIZE, texts, steps)
    return model.state_dict(), dataclasses.asdict(read)


def starting(way: str, weights: dict, seed: int) -> Classifier:
    """The model of `way` before it learns: its body pretrained or not, its head new."""
    model = new(SIZE, seed)
    if WAYS[way][1]:
        read = {name: value for name, value in weights.items() if name.startswith("distilbert.")}
        model.load_state_dict(read, strict=False)
    return model


def labelled(splits: dict[str, Reviews], seed: int) -> Reviews:
    """The reviews whose labels a seed gives away."""
    drawn = torch.randperm(SIZE.samples, generator=torch.Generator().manual_seed(seed))[:LABELS]
    train = splits["train"]
    texts = [train.text(i)[: SIZE.max_length] for i in drawn.tolist()]
    return Reviews.of(texts, train.labels[drawn], train.vocabulary, train.source)


def learn(way: str, weights: dict, splits: dict[str, Reviews], seed: int) -> dict:
    """Train by `way`: which test reviews are right, and what it took."""
    model, train = starting(way, weights, seed), labelled(splits, seed)
    begin = time.perf_counter()
    if WAYS[way][0] == "features":
        return by_features(model, way.split()[-1], train, splits["test"], begin)
    learning = train_only(model, WAYS[way][0])
    adam = torch.optim.Adam(learning, lr=WAYS[way][2])
    stream, validation, best = loader(train, "bucketed", SIZE.batch, seed=seed), [], {}
    seconds = 0.0
    for epoch in range(SIZE.epochs):
        begin = time.perf_counter()
        cast(Order, stream.batch_sampler).set_epoch(epoch)
        model.train()
        for batch in stream:
            step(model, adam, batch)
        seconds += time.perf_counter() - begin
        validation.append(right(model, splits["validation"]).float().mean().item())
        if validation[-1] > max(validation[:-1], default=0.0):
            best = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(best)
    count = sum(p.numel() for p in learning)
    return {"right": right(model, splits["test"]), "seconds": seconds, "trained": count} | {
        "validation": validation
    }


def by_features(model: Classifier, which: str, train: Reviews, test: Reviews, begin: float) -> dict:
    """As `learn`: one pass over the reviews, then logistic regression."""
    pooling = "first" if which == "token" else which
    stream = loader(train, "bucketed", SIZE.batch, shuffle=False)
    batches = list(stream)
    labels = torch.cat([batch.labels for batch in batches])
    linear = fit_linear(extract(model, batches, pooling), labels)
    seconds = time.perf_counter() - begin
    answers = torch.empty(len(test), dtype=torch.bool)
    batches = list(loader(test, "bucketed", 128, shuffle=False))
    guesses = linear(extract(model, batches, pooling)).argmax(1)
    samples, labels = (torch.cat([getattr(b, f) for b in batches]) for f in ("samples", "labels"))
    answers[samples] = guesses == labels
    count = sum(p.numel() for p in linear.parameters())
    return {"right": answers, "seconds": seconds, "trained": count, "validation": []}


def fit_linear(
    features: torch.Tensor, labels: torch.Tensor, classes: int = 2, decay: float = 1e-2
) -> torch.nn.Linear:
    """Logistic regression on `features` (samples, width), by L-BFGS, until it stands still.

    decay: of the weights, on standardised features; the scaling is folded into what is returned,
    so it takes features as they are.
    """
    mean, deviation = features.mean(0), features.std(0) + 1e-6
    x = (features - mean) / deviation
    linear = torch.nn.Linear(x.shape[1], classes, device=x.device)
    torch.nn.init.zeros_(linear.weight)
    torch.nn.init.zeros_(linear.bias)
    lbfgs = torch.optim.LBFGS(linear.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        lbfgs.zero_grad()
        value = F.cross_entropy(linear(x), labels) + decay * linear.weight.square().sum()
        value.backward()
        return value

    lbfgs.step(loss)  # type: ignore[arg-type]
    with torch.no_grad():
        linear.weight.div_(deviation)
        linear.bias.sub_(linear.weight @ mean)
    return linear


def step(model: Classifier, adam: torch.optim.Optimizer, batch: Batch) -> None:
    """One step of training."""
    adam.zero_grad()
    F.cross_entropy(model(*batch.inputs), batch.labels).backward()
    adam.step()


@torch.no_grad()
def right(model: Classifier, reviews: Reviews) -> torch.Tensor:
    """Which reviews the model gets right: bool (reviews,)."""
    model.eval()
    found = torch.empty(len(reviews), dtype=torch.bool)
    for batch in loader(reviews, "bucketed", 128, shuffle=False):
        found[batch.samples] = model(*batch.inputs).argmax(1) == batch.labels
    return found


def record(results: dict, weights: dict, read: dict, splits: dict, repeats: int) -> Path:
    """Measure the times, print one line a row, and write the result."""
    load = load_average()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times, grown = timed(weights, labelled(splits, 0), repeats)
    torch.set_num_threads(threads)
    rows = [row(way, results, times[way], grown[way]) for way in WAYS]
    print(*rows, sep="\n", flush=True)
    what = WHAT.format(labels=LABELS, seeds=SEEDS, steps=read["steps"], test=SIZE.test)
    return write(
        f"finetune-cpu-{len(os.sched_getaffinity(0))}",
        what,
        rows,
        libraries=("torch",),
        kind="CPU",
        load=load,
        threads=1,
        pretraining={name: round(value, 3) for name, value in read.items() if name != "seconds"},
    )


def timed(weights: dict, train: Reviews, repeats: int) -> tuple[dict, dict]:
    """Seconds of a batch by way, in turns, and by how many bytes memory grows in it."""
    batches = list(loader(train, "bucketed", SIZE.batch))
    batch = max(batches, key=len)
    work = {way: of_a_batch(way, weights, batch) for way in WAYS}
    grown = {}
    for way, do in work.items():
        do()  # the first also makes Adam's state
        with PeakMemory("cpu") as memory:
            do()
        grown[way] = memory.grown
    return time_interleaved(work, repeats), grown


def of_a_batch(way: str, weights: dict, batch: Batch):
    """What `way` does with a batch."""
    model = starting(way, weights, 0)
    if WAYS[way][0] == "features":
        return lambda: extract(model, [batch], "mean" if way.endswith("mean") else "first")
    adam = torch.optim.Adam(train_only(model, WAYS[way][0]), lr=WAYS[way][2])
    return lambda: step(model, adam, batch)


def row(way: str, results: dict, times: list[float], grown: int | None) -> dict:
    """One line of the table."""
    done = results[way]
    answers, scratch = (
        torch.stack([d["right"] for d in results[w]]) for w in (way, "from scratch")
    )
    found = {"way": way, "trained": done[0]["trained"]}
    found["accuracies"] = [f"{share:.2%}" for share in answers.float().mean(1).tolist()]
    found["accuracy"] = f"{answers.float().mean():.2%}"
    if way != "from scratch":
        paired = compare(scratch, answers)
        found["better"] = round(100 * paired.difference, 2)
        found["margin"] = round(100 * paired.margin, 2)
    best = [1 + d["validation"].index(max(d["validation"])) for d in done if d["validation"]]
    found |= {"best epochs": best, "passes": SIZE.epochs if best else 1}
    found["step MiB"] = None if grown is None else round(grown / 2**20, 1)
    return found | {"unit": "ms"} | summary(times)


if __name__ == "__main__":
    main()
