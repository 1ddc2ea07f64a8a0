"""One recipe on all ranks of torchrun: the global batch shared out by a strategy, and timed."""

from collections.abc import Iterable

import torch
import torch.distributed as dist

from benchmarks.ladder.options import Options
from rankbook.core.timing import now, spread
from rankbook.speed.batches import Batch
from rankbook.speed.init_model import init_model
from rankbook.speed.loop import loader_of
from rankbook.speed.precision import autocast, matmuls
from rankbook.speed.recipes import Recipe, changed, recipe
from rankbook.speed.reviews import Reviews
from rankbook.speed.strategies import Strategy, prepare
from rankbook.speed.strategies.memory import PARTS, measured


def on_ranks(options: Options, reviews: Reviews, device: torch.device) -> dict:
    """Time the recipe under ``options.strategy``; every rank calls this, and gets the row.

    reviews: the training split. The batches are made before the clock starts; a pass ends when the
    slowest rank has done it. The first pass warms up, and its losses are the row's.
    """
    (only,) = options.recipes
    assert options.strategy is not None  # as `read` has checked, of ranks
    model, source = init_model(
        options.size, options.seed, attention=only.attention, checkpointing=only.checkpointing
    )
    parameters = sum(p.numel() for p in model.parameters())
    trained = prepare(options.strategy, model, only.rate(options.size), device)
    train = reviews.first(options.samples)
    batches = list(loader_of(only, options.size, train, seed=options.seed))
    losses, seconds = one_pass(trained, only, batches)
    times = spread(one_pass(trained, only, batches)[1] for _ in range(options.repeats))
    tokens = sum(batch.tokens for batch in batches)
    base = recipe(only.base, options.size.name) if only.base else only
    return {
        "name": only.name,
        "base": only.base,
        "switch": changed(only, base),
        "recipe": only.switches(),
        "strategy": options.strategy,
        "ranks": dist.get_world_size(),
        "threads": torch.get_num_threads(),
        "parameters": parameters,
        "samples": options.samples,
        "steps": len(batches),
        "tokens": tokens,
        "repeats": options.repeats,
        "seconds": times,
        "warm_up_s": seconds,
        "samples_per_s": options.samples / times["median"],
        "tokens_per_s": tokens / times["median"],
        "memory": bytes_of(trained),
        "losses": losses,
        "weights": source,
    }


def one_pass(trained: Strategy, only: Recipe, batches: Iterable[Batch]) -> tuple[list, float]:
    """The loss of each step, and the seconds until the slowest rank is done."""
    dist.barrier()
    start, losses = now(trained.device), []
    with matmuls(only.precision):
        for batch in batches:
            parts = [batch] if only.accumulate == 1 else batch.split(only.accumulate)
            with autocast(only.precision, trained.device):
                losses.append(trained.step(*parts))
    now(trained.device)
    dist.barrier()
    return [loss.item() for loss in losses], now(trained.device) - start


def bytes_of(trained: Strategy) -> dict[str, int]:
    """What this rank keeps between steps, by part."""
    found = measured(trained)
    return {part: getattr(found, part) for part in PARTS}
