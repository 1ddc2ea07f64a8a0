"""The plain training loop: it reads a recipe's switches, and each switch is one line of it."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from rankbook.core.timing import now
from rankbook.speed import batches
from rankbook.speed.batches import Batch
from rankbook.speed.compiling import compiled, compiling, rounded
from rankbook.speed.init_model import init_model
from rankbook.speed.precision import autocast, matmuls
from rankbook.speed.recipes import Recipe
from rankbook.speed.reviews import Reviews
from rankbook.speed.sizes import Size


class Training:
    """A model on `device`, its optimizer and its scaler, made as `recipe` says.

    size: of the model, with the plain recipe's rate. seed: of the first weights. `forward` is the
    model or its compiled form; `source` says where the weights come from.
    `seen` and `right` count samples of a pass, if the bookkeeping is done in every step.
    """

    def __init__(
        self, recipe: Recipe, size: Size, device: torch.device | str = "cpu", *, seed: int = 0
    ):
        self.recipe, self.size, self.device = recipe, size, torch.device(device)
        self.model, self.source = init_model(
            size if recipe.dropout == "the model's" else size.without_dropout(),
            seed,
            attention=recipe.attention,
            checkpointing=recipe.checkpointing,
            residual=recipe.residual,
        )
        self.model.to(self.device)
        self.forward = compiled(self.model, recipe.compile)
        # None, not False, where it is not asked for: False would choose the slowest way
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=recipe.rate(size), fused=recipe.fused or None
        )
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=recipe.precision == "fp16")
        self.seen: int = 0
        self.right: int | torch.Tensor = 0

    def step(self, batch: Batch) -> torch.Tensor:
        """One optimizer step; the batch's mean loss () before it, detached, on the device.

        Nothing here asks a GPU for a number, but for the scaler of fp16, which has to know whether
        a gradient overflowed. Microbatches weigh as many samples as they have, so that
        their sum is the whole batch's mean, equal parts or not.
        """
        often = self.recipe.bookkeeping == "every step"
        if often:
            self.model.train()
        with matmuls(self.recipe.precision), compiling():
            self.optimizer.zero_grad()
            total = torch.zeros((), device=self.device)
            for part in self._microbatches(batch):
                loss, logits = self.forward_pass(part)
                loss = loss * (len(part) / len(batch))
                self.scaler.scale(loss).backward()
                total = total + loss.detach()
                if often:
                    with torch.no_grad():
                        self.right += (logits.argmax(dim=1) == part.labels).sum()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        if often:
            self.model.eval()
            self.seen += len(batch)
        return total

    def forward_pass(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Of `batch`, on the device: mean cross entropy (), logits (rows, classes), in 32 bits."""
        with autocast(self.recipe.precision, self.device):
            logits = self.forward(*batch.inputs)[: len(batch)].float()
        return F.cross_entropy(logits, batch.labels), logits

    def _microbatches(self, batch: Batch) -> Iterable[Batch]:
        """Parts of `batch`, each on the device only when its turn has come."""
        count, graphs = self.recipe.accumulate, self.recipe.compile == "reduce-overhead"
        for part in [batch] if count == 1 else batch.split(count):
            if graphs:
                torch.compiler.cudagraph_mark_step_begin()
                part = rounded(part, self.size.max_length)
            yield part.to(self.device, non_blocking=self.recipe.pinned)


@dataclass(frozen=True)
class Pass:
    """One pass over some batches: the loss of each step; `seconds` of the wall clock; how many
    samples, real tokens, and tokens that were computed, with padding."""

    losses: list[float]
    seconds: float
    samples: int
    tokens: int
    computed: int


def one_pass(training: Training, stream: Iterable[Batch]) -> Pass:
    """Train on all of `stream`; the plain loop.

    The clock starts when the first batch is there, since a loader's workers start once a pass
    and these passes are short, and stops when the device has done all its work.
    """
    training.model.train()
    training.seen = training.right = 0
    losses, samples, tokens, computed = [], 0, 0, 0
    stream = iter(stream)
    first = next(stream)
    start = now(training.device)
    for batch in itertools.chain([first], stream):
        losses.append(training.step(batch))
        samples += len(batch)
        tokens += batch.tokens
        computed += batch.computed
    seconds = now(training.device) - start
    return Pass([loss.item() for loss in losses], seconds, samples, tokens, computed)


def loader_of(recipe: Recipe, size: Size, reviews: Reviews, *, seed: int = 0) -> DataLoader:
    """Batches of `reviews` as `recipe` says; ``batch_sampler.set_epoch`` chooses the order."""
    return batches.loader(
        reviews,
        recipe.batching,
        recipe.batch(size),
        seed=seed,
        workers=recipe.workers,
        pin_memory=recipe.pinned,
    )
