"""The options of speed: read and checked before anything is loaded or any rank waits."""

import argparse
import math
import os
from dataclasses import dataclass
from pathlib import Path

from rankbook.programs.number_types import nonnegative_float, positive_int
from rankbook.programs.options import Parser, backend_option, from_namespace, option, timeout_option
from rankbook.speed.recipes import Recipe, ladder, recipe
from rankbook.speed.sizes import SIZES, Size, size
from rankbook.speed.strategies import STRATEGIES
from rankbook.speed.strategies.registry import entry

STEPS = {"cpu": 8, "full": 256}  # of the plain batch: what a row of the ladder is timed on
START = "torchrun --standalone --nproc-per-node 2 -m benchmarks.ladder"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is to be done, and how; checked.

    recipes: to be timed; none if only tokens are to be written. samples: of a pass. together: 0 for
    all. strategy: how `ranks` share the step; None in one process.
    """

    list: bool = option(bool, group="what", help="recipes and strategies; run nothing")
    recipes: tuple[Recipe, ...] = option(
        flag="--recipe", group="what", nargs="+", metavar="NAME", help="these, timed in turn"
    )
    ladder: str | None = option(group="what", choices=SIZES, help="all recipes of a size")
    size: Size = option(choices=SIZES, help="of model and data, with --recipe or --list (cpu)")
    strategy: str | None = option(choices=STRATEGIES, help="how ranks share the step (ddp)")
    batch: int | None = option(
        positive_int, metavar="ROWS", help="of the plain recipe, all ranks (12)"
    )
    steps: int = option(positive_int, help="of the plain batch, a pass (8, or 256 of size full)")
    repeats: int = option(positive_int, 7, help="timed passes of each recipe (7)")
    together: int = option(int, 0, metavar="ROWS", help="in turn with the first (all)")
    accuracy: int = option(int, 0, metavar="SEEDS", help="then train each, and test it")
    minutes: float = option(nonnegative_float, math.inf, help="to begin no more after (no end)")
    resume: bool = option(bool, help="go on with what the file of --out has not")
    seed: int = option(int, 0, help="of the parameters and of the order (0)")
    tokens: Path | None = option(
        Path, metavar="FILE", help="read the reviews' token ids from there"
    )
    save_tokens: Path | None = option(Path, metavar="FILE", help="write them there, for --tokens")
    out: Path | None = option(Path, metavar="FILE", help="write the result there, as JSON")
    backend: str = backend_option("of ranks (auto)")
    timeout: float = timeout_option()
    samples: int
    ranks: int


def parser() -> Parser:
    """What the command line may say."""
    return Parser(
        "[torchrun ...] python -m benchmarks.ladder",
        "Time training recipes of a film review classifier, one factor at a time: in one process, "
        "or one recipe on every rank of torchrun.",
        Options,
    )


def read(arguments: list[str]) -> Options:
    """The options of a command line, in the words of `parser`.

    Raises ValueError for what cannot be meant, or does not suit the ranks.
    """
    parsed = parser().parse_args(arguments)
    if not (parsed.list or parsed.recipes or parsed.ladder or parsed.save_tokens):
        raise ValueError("say what to run: --recipe NAME, or --ladder cpu; --list names them all")
    if parsed.ladder and parsed.size not in (None, parsed.ladder):
        raise ValueError(f"--ladder {parsed.ladder} has its own size; leave out --size")
    name = parsed.ladder or parsed.size or "cpu"
    on_ranks = "WORLD_SIZE" in os.environ and not parsed.list
    chosen = size(name, **({"batch": parsed.batch} if parsed.batch else {}))
    steps = parsed.steps or STEPS[name]
    options = from_namespace(
        Options,
        parsed,
        recipes=recipes_of(parsed, name),
        size=chosen,
        steps=steps,
        samples=steps * chosen.batch,
        ranks=int(os.environ.get("WORLD_SIZE", "1")),
        strategy=(parsed.strategy or "ddp") if on_ranks else None,
    )
    check_samples(options)
    if options.resume and not options.out:
        raise ValueError("--resume goes on with a file: name it with --out FILE")
    for path in filter(None, (options.out, options.save_tokens)):
        check_writable(path)
    if on_ranks and not parsed.recipes:
        raise ValueError(
            "--ladder and --save-tokens are for one process; under torchrun use --recipe NAME "
            "--strategy ddp, or start it without torchrun"
        )
    if on_ranks:
        check_ranks(options)
    elif parsed.strategy:
        raise ValueError(f"--strategy is for ranks, and there is one process; start {START}")
    return options


def recipes_of(parsed: argparse.Namespace, size_name: str) -> tuple[Recipe, ...]:
    """The recipes that are asked for. Raises ValueError for an unknown name."""
    if parsed.recipes:
        return tuple(recipe(each, size_name) for each in parsed.recipes)
    return ladder(size_name) if parsed.ladder else ()


def check_samples(options: Options) -> None:
    """Raise ValueError if a pass needs more samples than the size has."""
    has = options.size.samples
    if options.samples > has:
        raise ValueError(
            f"--steps {options.steps} of {options.size.batch} samples need {options.samples}, and "
            f"the size {options.size.name} has {has}; use fewer steps"
        )


def check_writable(path: Path) -> None:
    """Raise ValueError if no file can be written at `path`: better said before than after."""
    folder = path.parent
    if path.is_dir() or not folder.is_dir():
        what = "a folder" if path.is_dir() else f"in the folder {folder}, which does not exist"
        raise ValueError(f"{path} cannot be written: it is {what}; name a file in a folder")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise ValueError(f"{path} cannot be written: no permission; name another file")


def check_ranks(options: Options) -> None:
    """Raise ValueError for what several ranks cannot do together."""
    if len(options.recipes) > 1 or options.accuracy:
        raise ValueError("under torchrun one recipe is timed, without --accuracy; give one NAME")
    (only,) = options.recipes
    for switch, value in (("precision", "fp16"), ("runner", "lightning")):
        if getattr(only, switch) == value:
            raise ValueError(f"recipe {only.name!r} ({value}) is for one process; use another")
    if only.compile:
        raise ValueError(f"recipe {only.name!r} is compiled, and the strategies are not; use bf16")
    if only.accumulate > 1 and not entry(options.strategy or "").microbatches:
        raise ValueError(
            f"recipe {only.name!r} cuts a batch in {only.accumulate}, and {options.strategy} takes "
            "one batch a step here; use another recipe or strategy"
        )
    batch = only.batch(options.size)
    rest = options.samples % batch
    for rows in filter(None, (batch, rest)):
        parts = options.ranks * only.accumulate
        if rows % parts:
            raise ValueError(
                f"a batch of {rows} cannot be shared by {parts} parts ({options.ranks} ranks x "
                f"{only.accumulate} microbatches); choose --batch and --steps so that each batch "
                f"is a multiple of {parts}"
            )
