"""A whole training: epochs, and how accurate the model is after each and at the end."""

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch

from rankbook.speed import batches
from rankbook.speed.loop import Training, loader_of
from rankbook.speed.precision import autocast, matmuls
from rankbook.speed.recipes import Recipe
from rankbook.speed.reviews import Reviews
from rankbook.speed.runners import RUNNERS
from rankbook.speed.sizes import Size


def accuracy(training: Training, reviews: Reviews) -> float:
    """The share of `reviews` that the model gets right, from 0 to 1; none is left out."""
    return answers(training, reviews).double().mean().item()


@torch.no_grad()
def answers(training: Training, reviews: Reviews) -> torch.Tensor:
    """Which of `reviews` the model gets right: bool (reviews,), in their order, on the CPU.

    In evaluation mode throughout, in training mode after. Batches hold reviews of like length.
    """
    stream = batches.loader(reviews, "bucketed", 4 * training.size.batch, shuffle=False)
    right = torch.zeros(len(reviews), dtype=torch.bool, device=training.device)
    training.model.eval()
    with matmuls(training.recipe.precision):
        for batch in stream:
            batch = batch.to(training.device)
            with autocast(training.recipe.precision, training.device):
                logits = training.model(*batch.inputs)
            right[batch.samples] = logits.argmax(dim=1) == batch.labels
    training.model.train()
    return right.cpu()


@dataclass(frozen=True)
class Trained:
    """What `train` gives: the loss of every step; the `validation` accuracy after each epoch; the
    `best_epoch` by it, from 0; which test reviews, bool (reviews,), are `right_last`, after the
    last epoch, and `right_best`, with the best epoch's weights; `seconds` of the training alone."""

    losses: list[float]
    validation: list[float]
    best_epoch: int
    right_last: torch.Tensor
    right_best: torch.Tensor
    seconds: float

    @property
    def test_last(self) -> float:
        """The test accuracy after the last epoch."""
        return self.right_last.double().mean().item()

    @property
    def test_best(self) -> float:
        """The test accuracy of the best epoch."""
        return self.right_best.double().mean().item()


def train(
    recipe: Recipe,
    size: Size,
    reviews: dict[str, Reviews],
    *,
    epochs: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    say: Callable[[str], None] | None = None,
) -> Trained:
    """Train for `epochs`, the size's if None, each of `steps` steps at most, the whole if None.

    reviews: "train", "validation" and "test". `seed` gives the weights, the order and, as this
    process's seed, the dropout. `say` takes a line after each epoch.
    """
    training = Training(recipe, size, device, seed=seed)
    stream = loader_of(recipe, size, reviews["train"], seed=seed)
    run, losses, validation, seconds = RUNNERS[recipe.runner], [], [], 0.0
    best, best_epoch = {}, 0
    torch.manual_seed(seed)  # after the model, whose layers draw numbers that are not used
    for epoch in range(epochs or size.epochs):
        cast(batches.Order, stream.batch_sampler).set_epoch(epoch)
        done = run(training, itertools.islice(stream, steps))
        losses += done.losses
        seconds += done.seconds
        validation.append(accuracy(training, reviews["validation"]))
        if validation[-1] == max(validation) and validation.count(validation[-1]) == 1:
            # a copy: the model's own tensors will change with the next step
            best, best_epoch = copy.deepcopy(training.model.state_dict()), epoch
        if say:
            say(f"epoch {epoch + 1}: loss {done.losses[-1]:.3f}, validation {validation[-1]:.4f}")
    last = answers(training, reviews["test"])
    training.model.load_state_dict(best)
    return Trained(
        losses, validation, best_epoch, last, answers(training, reviews["test"]), seconds
    )
