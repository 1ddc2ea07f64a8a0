"""Who runs a pass: the plain loop, or Lightning's Trainer at the same settings."""

from collections.abc import Iterable

from rankbook.speed import lightning_runner
from rankbook.speed.batches import Batch
from rankbook.speed.loop import Pass, Training, one_pass

# what Lightning calls the number formats of a recipe; tf32 is set for the whole process
_PRECISIONS = {"float32": "32-true", "tf32": "32-true", "fp16": "16-mixed", "bf16": "bf16-mixed"}


def lightning_pass(training: Training, stream: Iterable[Batch]) -> Pass:
    """As `one_pass`, under a Trainer, with the recipe's model, optimizer and number format.

    Raises ImportError without Lightning, ValueError for a recipe that is compiled.
    """
    if training.recipe.compile:
        raise ValueError("a recipe under Lightning is not compiled here; choose one of the two")
    fitted = lightning_runner.fit(
        training.model,
        training.optimizer,
        stream,
        precision=_PRECISIONS[training.recipe.precision],
        device=training.device,
    )
    return Pass(fitted.losses, fitted.seconds, fitted.samples, fitted.tokens, fitted.computed)


# by the name that a recipe gives; Lightning itself, which loads for seconds, is imported by `fit`
RUNNERS = {"loop": one_pass, "lightning": lightning_pass}
