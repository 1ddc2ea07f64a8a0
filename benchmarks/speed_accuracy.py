"""How accurate the recipes of the ladder become: three seeds, on one test set.

Of recipes that compute the same in the same format, to its rounding, the first one is trained for
all: that they do is proved where they are made.

    nice -n 19 python -m benchmarks.speed_accuracy

Writes book/results/speed_accuracy-cpu.json after each training and goes on from there when it is
started again, unless --anew. It times nothing, so other programs may run beside it. Some twenty
minutes alone.
"""

import argparse
from collections.abc import Sequence

from benchmarks import record
from benchmarks.seeds import accuracies, compared
from rankbook.speed.recipes import Recipe, ladder
from rankbook.speed.sizes import size
from rankbook.speed.tokenising import tokenised

NAME = "speed_accuracy-cpu"
WHAT = (
    "The ladder of the size cpu, trained from random weights: a film review classifier of {layers} "
    "layers of width {width}, {samples} reviews of IMDB, {epochs} epochs, {seeds} seeds; the share "
    "of {test} test reviews that is right after the last epoch (margin: half of the 95 % interval "
    "of the difference to the plain row, paired by review and by seed)"
)


def main(arguments: list[str] | None = None) -> None:
    """Train what is missing, print a line for each training, and write the result."""
    options = parse(arguments)
    usual = size("cpu")
    what = WHAT.format(
        layers=usual.model.layers,
        width=usual.model.d_model,
        samples=usual.samples,
        epochs=usual.epochs,
        seeds=options.seeds,
        test=usual.test,
    )

    def keep(rows: list[dict]) -> None:
        record.write(NAME, what, table(rows), libraries=("torch",), kind="CPU", accuracies=rows)

    accuracies(
        [recipe.replace(workers=0) for recipe in different(ladder("cpu"))],
        usual,
        tokenised(usual),
        seeds=options.seeds,
        done=[] if options.anew else record.recorded(NAME).get("accuracies", []),
        keep=keep,
        say=lambda line: print(line, flush=True),
    )


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description="Train the ladder's recipes with several seeds.")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each recipe (3)")
    parser.add_argument("--anew", action="store_true", help="forget what was trained before")
    options = parser.parse_args(arguments)
    if options.seeds < 2:
        parser.error(f"--seeds {options.seeds} shows no spread between trainings; use 2 or more")
    return options


def different(recipes: Sequence[Recipe]) -> list[Recipe]:
    """The first recipe of each mathematics, number format and compilation."""
    kinds: dict[tuple, Recipe] = {}
    for each in recipes:
        kind = each.curve, each.precision, each.residual, each.compile is None
        kinds.setdefault(kind, each)
    return list(kinds.values())


def table(rows: Sequence[dict]) -> list[dict]:
    """A flat row each: the mean accuracy, and the difference to the first row with its margin."""
    lines = []
    for row in rows:
        line = {"row": row["name"], "seeds": len(row["seeds"])}
        if row["seeds"]:
            paired = compared(row, rows[0])
            line |= {"accuracy": f"{paired.second:.1%}", "difference": f"{paired.difference:+.1%}"}
            line |= {"margin": f"{paired.margin:.1%}", "disagree": f"{paired.disagree:.1%}"}
        else:
            line["note"] = row.get("error") or f"skipped: {row.get('skipped', 'not trained yet')}"
        lines.append(line)
    return lines


if __name__ == "__main__":
    main()
