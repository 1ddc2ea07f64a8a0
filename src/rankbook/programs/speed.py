"""Training recipes of a film review classifier, timed one factor at a time.

python -m rankbook.programs.speed --ladder cpu
torchrun --standalone --nproc-per-node 2 -m rankbook.programs.speed --recipe sdpa --strategy fsdp2
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist

from rankbook.parallel.placement import init, place
from rankbook.programs import speed_record
from rankbook.programs.report import end, fail
from rankbook.programs.speed_options import read
from rankbook.speed.ladder import run
from rankbook.speed.many import STRATEGIES
from rankbook.speed.recipes import changed, ladder
from rankbook.speed.reviews import Reviews, tokenised
from rankbook.speed.sizes import Size
from rankbook.speed.token_file import load_tokens, save_tokens


def main(arguments: list[str] | None = None) -> list[dict]:
    """Do what the options say; return the rows that were measured, failed ones included."""
    try:
        options = read(sys.argv[1:] if arguments is None else arguments)
        if options.list:
            say(names(options.size))
            return []
        device = start(options)
        reviews = load(options)
    except (ValueError, OSError, ImportError) as error:
        fail(error, "speed")
    if not (options.recipe or options.ladder):
        return []  # the tokens were written; there was no more to do
    return (
        together(options, reviews, device) if options.strategy else alone(options, reviews, device)
    )


def start(options: argparse.Namespace) -> torch.device:
    """Join the group, if torchrun described one; the device of this process."""
    if options.strategy:
        return init(options.backend, options.timeout)
    return place(0, 1, options.backend).device


def load(options: argparse.Namespace) -> dict[str, Reviews]:
    """The reviews of the size, from ``--tokens`` or tokenised here, and written if asked for."""
    if options.tokens:
        return load_tokens(options.tokens, options.size)
    reviews = tokenised(options.size)
    if options.save_tokens:
        save_tokens(reviews, options.size, options.save_tokens)
        say(f"{options.save_tokens}: the token ids of {sum(map(len, reviews.values())):,} reviews")
    return reviews


def alone(options: argparse.Namespace, reviews: dict, device: torch.device) -> list[dict]:
    """The recipes in turn, in this process; the rows, written to ``--out``, too."""
    load_before = round(os.getloadavg()[0], 1)  # what else the machine did
    rows = run(
        options.recipes,
        options.size,
        reviews,
        device=device,
        steps=options.steps,
        repeats=options.repeats,
        seed=options.seed,
        accuracy=options.size.epochs if options.accuracy else None,
        say=say,
    )
    say(speed_record.table(rows))
    if options.out:
        what = speed_record.WHAT.format(size=options.size.name, samples=options.samples)
        lines = [speed_record.flat(row) for row in rows]
        more = {"size": options.size.name, "load": load_before, "ladder": rows}
        speed_record.write(options.out, speed_record.record(what, device, lines, **more))
    failed = [row["name"] for row in rows if "error" in row]
    if failed:
        print(f"speed: {len(failed)} of {len(rows)} recipes failed: {', '.join(failed)}",
              file=sys.stderr, flush=True)  # fmt: skip
    return rows


def together(options: argparse.Namespace, reviews: dict, device: torch.device) -> list[dict]:
    """The recipe on all ranks; rank 0 says what came out, and writes it to ``--out``."""
    from rankbook.programs.speed_ranks import on_ranks

    (only,) = options.recipes
    try:
        row = on_ranks(options, reviews["train"], device)
    except torch.OutOfMemoryError:
        rows = only.batch(options.size)
        fail(MemoryError(f"out of memory: recipe {only.name!r} with a batch of {rows}"), "speed")
    if dist.get_rank() == 0:
        line = speed_record.flat_ranks(row)
        say("\n".join(f"{name:>14}  {value}" for name, value in line.items()))
        first, last = row["losses"][0], row["losses"][-1]
        say(f"{'loss':>14}  {first:.4f}, and in step {row['steps']} {last:.4f}")
        if options.out:
            what = speed_record.WHAT.format(size=options.size.name, samples=options.samples)
            result = speed_record.record(what, device, [line], many=[row])
            speed_record.write(options.out, result)
    dist.destroy_process_group()
    return [row]


def names(size: Size) -> str:
    """What ``--list`` says: the recipes of the size's ladder, and the strategies."""
    recipes = {recipe.name: recipe for recipe in ladder(size.name)}
    lines = [f"recipes of the size {size.name}:"]
    for recipe in recipes.values():
        base = recipes.get(recipe.base, recipe)
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


if __name__ == "__main__":
    end(status(main()))
