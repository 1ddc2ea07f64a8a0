"""Is it the same training? A GPU's losses, logits and gradients beside float64 on the CPU.

A trained model, a batch of uneven texts; every format and every way that the device has. Each
check also meets attention without its values, and has to catch it.
"""

import sys

import torch

from benchmarks.gpu.options import parse
from benchmarks.gpu.rows import Rows
from rankbook.speed.batches import make_batch
from rankbook.speed.compiling import compiled
from rankbook.speed.proof import allowed, caught, check, control, outcome, trained
from rankbook.speed.recipes import Recipe, recipe
from rankbook.speed.reviews import synthetic
from rankbook.speed.sabotage import without_values
from rankbook.speed.sizes import size
from rankbook.speed.skipping import reason_to_skip

WHAT = (
    "Loss, logits and gradients of a trained model of one layer on one device, against float64 on "
    "the CPU: the part that is farthest off, relative to its norm; what the format's rounding "
    "explains at most; what gave attention without its values away"
)
NAMES = ("plain", "packed", "sdpa", "tf32", "fp16", "bf16", "bf16 residual", "compile")


def main(arguments: list[str] | None = None) -> int:
    """Check what was not checked yet; 1 if something is off."""
    options = parse(arguments, "Hold a GPU's outcomes against float64.")
    rows = Rows("equality-gpu-1", WHAT, options.device)
    small = size("cpu", layers=1, d_model=64, d_hidden=256, heads=2, max_length=128)
    reviews = synthetic(240, small)
    # after 120 steps one text lies at the border of two answers, and amplifies rounding tenfold
    model = trained(small, reviews, steps=240)
    for name in NAMES:
        chosen = recipe(name)
        if name == "compile":  # of float32: the other formats are rows of their own
            chosen = recipe("sdpa").replace(name="compile", compile="default")
        rows.measure(name, lambda chosen=chosen: compare(chosen, model, reviews, options.device))
    return rows.failed()


def compare(chosen: Recipe, model, reviews, device: torch.device) -> dict:
    """One row. Raises AssertionError if it is off, or if the sabotage is not noticed."""
    lacking = reason_to_skip(chosen, device)
    if lacking:
        raise LookupError(lacking)
    batch = make_batch(reviews, list(range(12)), chosen.batching).to(device)
    right = control(model, batch)
    model = like(model, chosen).to(device)
    forward = compiled(model, chosen.compile)
    scale = 2.0**10 if chosen.precision == "fp16" else 1.0
    how = {"precision": chosen.precision, "scale": scale}
    distance = check(
        outcome(model, batch, forward=forward, **how), right, chosen.precision, model.config
    )
    with without_values():  # eager: what is compiled keeps its attention
        wrong = caught(outcome(model, batch, **how), right, chosen.precision, model.config)
    part, off = distance.worst
    limit = allowed(chosen.precision, model.config)
    return {"farthest": part, "off": f"{off:.1e}", "allowed": f"{limit:.1e}", "caught": wrong}


def like(model, chosen: Recipe):
    """A copy of `model` with the attention and the residual stream of the recipe."""
    from rankbook.models import Classifier

    other = Classifier(model.config, attention=chosen.attention, residual=chosen.residual)
    other.load_state_dict(model.state_dict())
    return other.eval()


if __name__ == "__main__":
    sys.exit(main())
