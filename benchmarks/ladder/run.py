"""Training recipes of a film review classifier, timed one factor at a time.

python -m benchmarks.ladder --ladder cpu
torchrun --standalone --nproc-per-node 2 -m benchmarks.ladder --recipe sdpa --strategy fsdp2
"""

import os
import sys

import torch
import torch.distributed as dist

from benchmarks.ladder import record as results
from benchmarks.ladder.options import Options, read
from benchmarks.ladder.ranks import on_ranks
from benchmarks.seeds import accuracies
from rankbook.core.agreement import agree
from rankbook.core.placement import init, place
from rankbook.programs.ending import exit_on_user_error
from rankbook.speed.ladder import run
from rankbook.speed.recipes import changed, ladder
from rankbook.speed.reviews import Reviews
from rankbook.speed.sizes import Size
from rankbook.speed.strategies import STRATEGIES
from rankbook.speed.token_file import load_tokens, save_tokens
from rankbook.speed.tokenising import tokenised

MORE = os.EX_TEMPFAIL  # the status that says: there is more to do


def main(arguments: list[str] | None = None) -> list[dict]:
    """Do what the options say; return the rows that were measured, failed ones included."""
    with exit_on_user_error("speed"):
        options = read(sys.argv[1:] if arguments is None else arguments)
        if options.list:
            say(names(options.size))
            return []
        device = start(options)
        reviews = agree(lambda: load(options))
    if not options.recipes:
        return []  # the tokens were written; there was no more to do
    with exit_on_user_error("speed", OSError, MemoryError):
        return (together if options.strategy else alone)(options, reviews, device)


def start(options: Options) -> torch.device:
    """Join the group, if torchrun described one; the device of this process."""
    if options.strategy:
        return init(options.backend, options.timeout)
    return place(0, 1, options.backend).device


def load(options: Options) -> dict[str, Reviews]:
    """The reviews of the size, from ``--tokens`` or tokenised here, and written if asked for."""
    if options.tokens:
        return load_tokens(options.tokens, options.size)
    reviews = tokenised(options.size)
    if options.save_tokens:
        save_tokens(reviews, options.size, options.save_tokens)
        say(f"{options.save_tokens}: the token ids of {sum(map(len, reviews.values())):,} reviews")
    return reviews


def alone(options: Options, reviews: dict, device: torch.device) -> list[dict]:
    """The recipes in turn, in this process; ``--out`` has each row once it was measured."""
    book = results.Book(options, device, reviews["train"].source)
    rows = run(
        options.recipes,
        options.size,
        reviews,
        device=device,
        steps=options.steps,
        repeats=options.repeats,
        seed=options.seed,
        together=options.together or None,
        minutes=options.minutes,
        done=book.rows,
        keep=book.keep,
        say=say,
    )
    left = len(options.recipes) - len(rows)
    if left:
        say(f"speed: {left} recipes are left; the same command with --resume goes on with them")
        raise SystemExit(MORE)
    if options.accuracy:
        accuracies(
            options.recipes,
            options.size,
            reviews,
            seeds=options.accuracy,
            device=device,
            done=book.accuracies,
            keep=book.keep_accuracies,
            say=say,
        )
    say(results.table(rows))
    failed = [row["name"] for row in rows if "error" in row]
    if failed:
        print(f"speed: {len(failed)} of {len(rows)} recipes failed: {', '.join(failed)}",
              file=sys.stderr, flush=True)  # fmt: skip
    return rows


def together(options: Options, reviews: dict, device: torch.device) -> list[dict]:
    """The recipe on all ranks; rank 0 says what came out, and writes it to ``--out``."""
    (only,) = options.recipes
    try:
        row = on_ranks(options, reviews["train"], device)
    except torch.OutOfMemoryError as error:
        rows = only.batch(options.size)
        raise MemoryError(
            f"out of memory: recipe {only.name!r} with a batch of {rows}; use a smaller --batch"
        ) from error
    if dist.get_rank() == 0:
        line = results.flat_ranks(row)
        say("\n".join(f"{name:>14}  {value}" for name, value in line.items()))
        first, last = row["losses"][0], row["losses"][-1]
        say(f"{'loss':>14}  {first:.4f}, and in step {row['steps']} {last:.4f}")
        if options.out:
            what = results.WHAT.format(size=options.size.name, samples=options.samples)
            results.record(what, device, [line], many=[row]).write(options.out)
    dist.destroy_process_group()
    return [row]


def names(size: Size) -> str:
    """What ``--list`` says: the recipes of the size's ladder, and the strategies."""
    recipes = {recipe.name: recipe for recipe in ladder(size.name)}
    lines = [f"recipes of the size {size.name}:"]
    for recipe in recipes.values():
        base = recipes.get(recipe.base or "", recipe)
        what = ", ".join(f"{name} {new}" for name, (_, new) in changed(recipe, base).items())
        on = f" (on {recipe.base!r}: {what})" if what else ""
        lines.append(f"  {'  ' * recipe.side}{recipe.name}: {recipe.about}{on}")
    lines += ["strategies under torchrun:"]
    lines += [f"  {name}: {about}" for name, about in STRATEGIES.items()]
    return "\n".join(lines)


def say(text: str) -> None:
    """A line at once, on rank 0."""
    if os.environ.get("RANK", "0") == "0":
        print(text, flush=True)


def status(rows: list[dict]) -> int:
    """What the program ends with: 1 if a row failed."""
    return int(any("error" in row for row in rows))
