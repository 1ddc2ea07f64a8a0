"""How accurate each recipe's model becomes, over several seeds, and whether recipes differ."""

from collections.abc import Callable, Mapping, Sequence

import torch

from rankbook.speed.epochs import train
from rankbook.speed.paired import Paired, compare
from rankbook.speed.recipes import Recipe
from rankbook.speed.reviews import Reviews
from rankbook.speed.sizes import Size
from rankbook.speed.skipping import reason_to_skip


def accuracies(
    recipes: Sequence[Recipe],
    size: Size,
    splits: dict[str, Reviews],
    *,
    seeds: int = 3,
    epochs: int | None = None,
    device: torch.device | str = "cpu",
    done: Sequence[Mapping] = (),
    keep: Callable[[list[dict]], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> list[dict]:
    """Train each of `recipes` anew with each seed for `epochs`, the size's if None; one row each.

    A row has, for each seed, the accuracy on the "validation" reviews after each epoch, the
    `best_epoch`, and the answers on the "test" reviews as text: see `unpacked`. done: rows of an
    earlier run, of which nothing is trained again. keep: called with all rows after each training,
    to write them. A recipe that cannot run here has `skipped`, one that failed `error`.
    """
    known = {row["name"]: row for row in done}
    rows = [dict(known.get(r.name, {"name": r.name, "seeds": []})) for r in recipes]
    for seed in range(seeds):
        for recipe, row in zip(recipes, rows, strict=True):
            if len(row["seeds"]) > seed or "error" in row:
                continue
            if skipped := reason_to_skip(recipe, device):
                row["skipped"] = skipped
                continue
            try:
                row["seeds"].append(_one(recipe, size, splits, seed, epochs, device))
            except Exception as error:  # on a borrowed machine the others go on, whatever it was
                row["error"] = f"{recipe.name}: {type(error).__name__}: {error}".splitlines()[0]
            if keep:
                keep(rows)
            if say:
                say(row.get("error") or f"{recipe.name}, seed {seed}: {_last(row):.1%}")
    return rows


def _one(recipe, size, splits, seed, epochs, device) -> dict:
    trained = train(recipe, size, splits, seed=seed, epochs=epochs, device=device)
    return {
        "validation": trained.validation,
        "best_epoch": trained.best_epoch,
        "last": packed(trained.right_last),
        "best": packed(trained.right_best),
    }


def _last(row: Mapping) -> float:
    return unpacked([row["seeds"][-1]["last"]]).double().mean().item()


def compared(row: Mapping, control: Mapping, which: str = "last") -> Paired:
    """The recipe of `row` against that of `control`, on the seeds that both have.

    which: "last" or "best", the epoch whose model is tested.
    """
    seeds = min(len(row["seeds"]), len(control["seeds"]))
    control_right, right = (
        unpacked([seed[which] for seed in each["seeds"][:seeds]]) for each in (control, row)
    )
    return compare(control_right, right)


def packed(right: torch.Tensor) -> str:
    """Answers, bool (reviews,), as text: "1" for each right one, "0" for each wrong one."""
    return "".join("1" if answer else "0" for answer in right.tolist())


def unpacked(texts: Sequence[str]) -> torch.Tensor:
    """What `packed` wrote for each seed: bool (seeds, reviews)."""
    return torch.tensor([[answer == "1" for answer in text] for text in texts])
