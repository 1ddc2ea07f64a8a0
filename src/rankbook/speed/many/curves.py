"""What more ranks do to training if each keeps its batch: one process takes their global batch."""

from dataclasses import dataclass
from itertools import accumulate

import torch

from rankbook.speed.batches import loader
from rankbook.speed.many.loops import plain
from rankbook.speed.reviews import Reviews
from rankbook.speed.sizes import Size
from rankbook.speed.start import started


@dataclass(frozen=True)
class Curve:
    """`losses` of the steps of a training, and how many `samples` each came after."""

    samples: list[int]
    losses: list[float]


def curve(
    size: Size,
    reviews: Reviews,
    ranks: int = 1,
    rate_times: float = 1.0,
    *,
    epochs: int = 1,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> Curve:
    """Train as `ranks` would with `size.batch` samples each a step, at `rate_times` its rate.

    In one process, which computes what all ranks together would. The samples come in the same
    order for any number of ranks; the last batch of an epoch may be smaller.
    """
    model, _ = started(size, seed)
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=size.lr * rate_times)
    stream = loader(reviews, "longest of batch", size.batch * ranks, seed=seed)
    losses, rows = [], []
    for epoch in range(epochs):
        stream.batch_sampler.set_epoch(epoch)
        batches = list(stream)
        losses += plain(model, optimizer, batches, device)
        rows += map(len, batches)
    return Curve(list(accumulate(rows, initial=0))[:-1], losses)
